package gitmail

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

const (
	cacheName = stateFolder + "/cache.json"
	mostCache = 16 << 20 // bytes
)

// The cache spares listing boxes and reading trees. Without it, a sync does both.
type cache struct {
	// Base is the base that the folders of the agents agree with, by their stamps, and Refs the refs of the remote
	// that it agrees with.
	Base   string                      `json:"base"`
	Refs   string                      `json:"refs"`
	Agents map[schema.AgentName]string `json:"agents"`
	// Waiting are the states that the base had before, of messages that a box refused.
	Waiting map[string]replica.State `json:"waiting,omitempty"`
	// Contended says that another machine was faster when this one pushed last.
	Contended bool `json:"contended,omitempty"`
}

func (r *Repository) readCache() (c cache) {
	data, err := durable.ReadFile(r.w.Root(), r.w.Dir(), cacheName, mostCache)
	if err != nil || json.Unmarshal(data, &c) != nil {
		return cache{}
	}
	return c
}

// settled is the age at which a folder's time says whether it changed since it was listed: the clocks of file
// systems have ticks.
const settled = 2 * time.Second

// stamp returns a text of the times of an agent's folders. It is empty if one of them is not settled.
func stamp(w *mailbox.Workspace, agent schema.AgentName, now time.Time) (text string) {
	for _, box := range []mailbox.Box{mailbox.Outbox, mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
		at := time.Unix(0, 0)
		if info, err := w.Root().Lstat(boxPath(agent, box)); err == nil {
			at = info.ModTime()
		}
		if now.Sub(at) < settled {
			return ""
		}
		text += " " + strconv.FormatInt(at.UnixNano(), 36)
	}
	return text
}

// inStep reports whether the folders of an agent did not change since they agreed with the base, and notes their stamp.
func (e *exchange) inStep(agent schema.AgentName) bool {
	now := stamp(e.r.w, agent, e.now)
	if now != "" {
		e.stamps[agent] = now
	}
	return now != "" && e.cache.Base == e.base.commit && e.cache.Agents[agent] == now
}

// refsKey returns a text of what the remote has.
func (e *exchange) refsKey() string {
	key := e.there
	for _, ref := range slices.Sorted(maps.Keys(e.machines)) {
		key += " " + ref + " " + e.machines[ref]
	}
	return key
}

// nothingNew reports whether neither the workspace nor the remote changed since the last sync.
func (e *exchange) nothingNew() bool {
	c := e.cache
	if c.Base == "" || c.Base != e.baseID || c.Refs != e.refsKey() || e.o.Prune != nil || e.o.Squash || e.o.RemoveAgent != "" || e.machines[e.ownRef] != "" {
		return false
	}
	agents, err := e.w.Agents()
	return err == nil && len(agents) > 0 && len(agents) == len(c.Agents) &&
		!slices.ContainsFunc(agents, func(agent schema.AgentName) bool {
			now := stamp(e.r.w, agent, e.now)
			return now == "" || now != c.Agents[agent]
		})
}

// keep notes what the workspace and the remote agree on.
func (e *exchange) keep() error {
	maps.DeleteFunc(e.stamps, func(agent schema.AgentName, _ string) bool { return !e.w.Knows(agent) })
	after := cache{Base: e.baseID, Refs: e.refsKey(), Agents: e.stamps, Waiting: e.waiting, Contended: e.cache.Contended}
	if len(e.waiting) > 0 {
		after.Refs = ""
	}
	return e.writeCache(after)
}

// writeCache writes the cache, if it changes.
func (e *exchange) writeCache(after cache) error {
	e.cache = after
	data, err := json.Marshal(after)
	if before, readErr := durable.ReadFile(e.w.Root(), e.w.Dir(), cacheName, mostCache); err != nil || readErr == nil && bytes.Equal(before, data) {
		return err
	}
	return durable.ReplaceFile(e.w.Root(), e.w.Dir(), cacheName, data, 0o644)
}
