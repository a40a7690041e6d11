package gitmail

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

const (
	cacheName = stateFolder + "/cache.json"
	mostCache = 16 << 20 // bytes
)

// The cache saves a sync from listing boxes and reading trees that did not change.
type cache struct {
	// Base is the base with which the remote agrees, while it has the refs.
	Base string `json:"base"`
	Refs string `json:"refs"`
	// Waiting are the copies of messages that a box refused.
	Waiting []replica.Copy `json:"waiting,omitempty"`
	// Seen are the refs of machines that a sync has read.
	Seen map[string]seen `json:"seen,omitempty"`
	// Boxes are what syncs remember of mailboxes that agree with the base and the settings in BoxesBase.
	Boxes     map[schema.AgentName]replica.Memories `json:"boxes,omitempty"`
	BoxesBase string                                `json:"boxes_base,omitempty"`
	// Contended says that another machine was faster at the last push.
	Contended bool `json:"contended,omitempty"`
}

func (r *Repository) readCache() (c cache) {
	data, err := durable.ReadFile(r.w.Root(), r.w.Dir(), cacheName, mostCache)
	if err != nil || json.Unmarshal(data, &c) != nil {
		return cache{}
	}
	return c
}

// times returns the times of what a sync reads of an agent besides its boxes.
func (e *exchange) times(agent schema.AgentName) replica.Memories {
	marks, times := mailbox.MarksFolder+"/"+string(agent), make(replica.Memories)
	for _, path := range []string{schema.AgentPath(agent, project.StatusName), marks, marks + "/restored", mailbox.UnaskedFolder + "/" + string(agent)} {
		times[path] = replica.Memory{At: e.w.Time(path)}
	}
	return times
}

// remembered returns what syncs remember of an agent, if it agreed with the base.
func (e *exchange) remembered(agent schema.AgentName) replica.Memories {
	if e.baseID == "" || e.cache.BoxesBase != boxesKey(e.baseID, e.r.settings) {
		return nil
	}
	return e.cache.Boxes[agent]
}

// isUnchanged reports whether nothing of an agent has changed since.
func (e *exchange) isUnchanged(agent schema.AgentName) bool {
	before, now := e.remembered(agent), e.times(agent)
	for _, box := range []mailbox.Box{mailbox.Outbox, mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
		now[string(box)] = replica.Memory{At: e.w.Time(schema.BoxPath(agent, box))}
	}
	for name, memory := range now {
		if memory.At == 0 || memory.At != before[name].At {
			return false
		}
	}
	return true
}

// boxesKey encodes what boxes agree with: a base, and the settings that say what of it the workspace takes.
func boxesKey(base string, s Settings) string { return base + " " + s.Since }

// refsKey encodes which remote there is, and what it has.
func (e *exchange) refsKey() string {
	key := e.r.settings.URL + " " + e.there
	for _, ref := range slices.Sorted(maps.Keys(e.machines)) {
		key += " " + ref + " " + e.machines[ref]
	}
	return key
}

// nothingNew reports whether neither the workspace nor the remote has changed since the last sync.
func (e *exchange) nothingNew() bool {
	c := e.cache
	if c.Base == "" || c.Base != e.baseID || c.Refs != e.refsKey() || e.o.Prune != nil || e.o.Squash || e.machines[e.ownRef] != "" {
		return false
	}
	agents, err := e.w.Agents()
	return err == nil && len(agents) > 0 && len(agents) == len(c.Boxes) &&
		!slices.ContainsFunc(agents, func(agent schema.AgentName) bool { return !e.isUnchanged(agent) })
}

// keep caches what the workspace and the remote agree on.
func (e *exchange) keep() error {
	after := e.cache
	after.Base, after.Refs, after.Waiting = e.baseID, e.refsKey(), e.waitingCopies()
	if len(e.waiting) > 0 || e.block != nil {
		after.Refs = "" // the next sync looks at all, and reports it again
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
