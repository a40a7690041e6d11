package gitmail

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// The cache spares listing boxes and reading trees. Without it, a sync does both.
const cacheName = stateFolder + "/cache.json"

type cache struct {
	// Base is the base with which the folders are in step, by their times in nanoseconds, and Refs the refs of
	// the remote with which the base is.
	Base  string           `json:"base"`
	Refs  string           `json:"refs"`
	Boxes map[string]int64 `json:"folders"`
	// Unfolded is when machines' refs were first seen beside the branch.
	Unfolded time.Time `json:"unfolded,omitzero"`
}

func (r *Repository) readCache() (c cache) {
	const mostBytes = 16 << 20
	data, err := durable.ReadFile(r.w.Root(), r.w.Dir(), cacheName, mostBytes)
	if err != nil || json.Unmarshal(data, &c) != nil {
		return cache{}
	}
	return c
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
	if c.Base == "" || c.Base != e.baseID || c.Refs != e.refsKey() || e.o.Prune != nil || e.o.RemoveAgent != "" ||
		!c.Unfolded.IsZero() && e.now.Sub(c.Unfolded) > foldAfter {
		return false
	}
	agents, err := e.r.w.Agents()
	e.base = &view{commit: e.baseID}
	return err == nil && len(agents) > 0 && !slices.ContainsFunc(agents, func(agent schema.AgentName) bool {
		return !e.inStep(&merge{seen: make(map[string]int64)}, agent)
	}) && e.r.hasMarker() && c.Boxes["agents"] == int64(len(agents))
}

// isShallow reports whether the beginning of the history is missing here, because the workspace joined later.
func (r *Repository) isShallow() bool {
	_, err := r.w.Root().Lstat(gitName + "/shallow")
	return err == nil
}

// hasMarker reports whether the workspace has its description.
func (r *Repository) hasMarker() bool {
	_, err := r.w.Root().Lstat(markerName)
	return err == nil
}

// keep writes the cache, if it changes.
func (e *exchange) keep(m *merge) error {
	after := cache{Base: e.baseID, Refs: e.refsKey(), Boxes: m.seen}
	if agents, err := e.r.w.Agents(); err == nil {
		after.Boxes["agents"] = int64(len(agents))
	}
	if len(e.waiting)+len(e.unsent) > 0 {
		after.Refs = ""
	}
	if len(e.machines) > 0 {
		if after.Unfolded = e.cache.Unfolded; after.Unfolded.IsZero() {
			after.Unfolded = e.now
		}
	}
	if e.cache.Base == after.Base && e.cache.Refs == after.Refs && maps.Equal(e.cache.Boxes, after.Boxes) {
		return nil
	}
	e.cache = after
	data, err := json.Marshal(after)
	if err != nil {
		return err
	}
	return durable.ReplaceFile(e.r.w.Root(), e.r.w.Dir(), cacheName, data, 0o644)
}
