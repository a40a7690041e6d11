package track

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

const (
	// hintsFolder has a file for each agent: the names of the files that mattered when its debts were last found.
	hintsFolder = "state/owed"
	maxHints    = 1 << 20
	// worthHints is how many files make listing them take longer than reading hints.
	worthHints = 1000
	// settled is the age of a change after which another one gives a folder another time.
	settled = time.Second
)

// hints are the names of the files that held open requests, and replies to these and to pending ones. They say all that
// listing the folders would, as long as nothing was added to these or removed.
type hints struct {
	// Changed are the times at which the folders, and the settings that decide what is held, were last changed.
	Changed map[string]time.Time `json:"changed"`
	Names   []string             `json:"names"`
}

// list lists the outboxes and the agent's boxes or, if hints from earlier are still true, only its inbox.
func (l *ledger) list() (err error) {
	l.found = hints{Changed: make(map[string]time.Time)}
	agents, err := l.w.Agents()
	if err != nil {
		return err
	}
	paths := []string{
		schema.BoxPath(l.agent, mailbox.Archive), schema.BoxPath(l.agent, mailbox.DeadLetters),
		schema.AgentPath(l.agent, project.ConfigName), trust.PinsName(l.agent),
	}
	for _, agent := range agents {
		paths = append(paths, schema.BoxPath(agent, mailbox.Outbox))
	}
	for _, path := range paths {
		if info, err := os.Stat(l.w.Dir() + "/" + path); err == nil {
			l.found.Changed[path] = info.ModTime()
		}
	}
	var old hints
	data, readErr := durable.ReadFile(l.w.Root(), l.w.Dir(), l.hintsFile(), maxHints)
	if readErr == nil && json.Unmarshal(data, &old) == nil && maps.EqualFunc(old.Changed, l.found.Changed, time.Time.Equal) {
		l.found.Changed = nil // there is nothing new to write down
		if l.listing, err = l.w.Names(func(of schema.AgentName, box mailbox.Box) bool { return of == l.agent && box == mailbox.Inbox }); err == nil {
			l.listing.Assume(old.Names, mailbox.Archive, mailbox.DeadLetters, mailbox.Outbox)
		}
		return err
	}
	l.listing, err = l.w.Names(func(of schema.AgentName, box mailbox.Box) bool { return box == mailbox.Outbox || of == l.agent })
	return err
}

func (l *ledger) hintsFile() string { return hintsFolder + "/" + string(l.agent) + ".json" }

// writeHints writes down which files mattered. Without it, the next search takes longer.
func (l *ledger) writeHints() {
	listed := 0
	l.listing.All(func(schema.AgentName, mailbox.Box, string) { listed++ })
	if l.found.Changed == nil || l.except != nil || listed < worthHints {
		return
	}
	for _, at := range l.found.Changed {
		if l.tracker.now.Sub(at) < settled {
			return
		}
	}
	matter := maps.Clone(l.inInbox)
	for _, d := range l.debts {
		matter[d.request.ID] = true
		l.found.Names = append(l.found.Names, l.names[d.request.ID])
	}
	for id := range matter {
		for _, e := range l.replies[id] {
			l.found.Names = append(l.found.Names, e.Name)
		}
	}
	slices.Sort(l.found.Names)
	l.found.Names = slices.Compact(l.found.Names)
	if data, err := json.Marshal(l.found); err == nil && l.w.MakeStateFolder(hintsFolder) == nil {
		_ = durable.ReplaceFile(l.w.Root(), l.w.Dir(), l.hintsFile(), data, 0o644)
	}
}
