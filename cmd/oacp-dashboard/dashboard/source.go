package dashboard

import (
	"context"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
)

// Config says what a Source looks at.
type Config struct {
	Workspaces []*mailbox.Workspace
	// RunsRoot is the folder of all runs; empty means that there are none.
	RunsRoot string
	// RepositoryID bounds the runs to those of one repository; empty means
	// all.
	RepositoryID string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Source gathers snapshots. What has not changed since the last one is not
// read again: folders are listed when their time has changed, messages are
// read once, logs and transcripts from where the last reading ended. It is
// not for use by several goroutines at once.
type Source struct {
	config  Config
	boxes   map[string]*box
	agents  map[string]*agentReading
	texts   map[string]*messageReading
	runs    map[string]*runReading
	current int // counts the snapshots
}

// NewSource makes a Source. The workspaces stay the caller's to close.
func NewSource(config Config) *Source {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Source{
		config: config,
		boxes:  make(map[string]*box),
		agents: make(map[string]*agentReading),
		texts:  make(map[string]*messageReading),
		runs:   make(map[string]*runReading),
	}
}

// Gather tells how it stands now. What cannot be read is told in the
// snapshot, beside what can; the error is the context's.
func (s *Source) Gather(ctx context.Context) (Snapshot, error) {
	s.current++
	snapshot := Snapshot{At: s.config.Now(), Workspaces: []Workspace{}, Runs: []Run{}}
	for _, w := range s.config.Workspaces {
		snapshot.Workspaces = append(snapshot.Workspaces, s.workspace(ctx, w))
	}
	s.gatherRuns(ctx, &snapshot)
	s.forget()
	return snapshot, context.Cause(ctx)
}

// forget drops what was not looked at for the last snapshot.
func (s *Source) forget() {
	for path, m := range s.texts {
		if m.seen != s.current {
			delete(s.texts, path)
		}
	}
	for folder, r := range s.runs {
		if r.seen != s.current {
			delete(s.runs, folder)
		}
	}
}

// workspace tells how it stands in a workspace.
func (s *Source) workspace(ctx context.Context, w *mailbox.Workspace) Workspace {
	result := Workspace{Dir: w.Dir(), Project: project.Name(w), Agents: []Agent{}, Messages: []Message{}}
	names, err := w.Agents()
	if err != nil {
		result.Problem = err.Error()
		return result
	}
	for _, name := range names {
		result.Agents = append(result.Agents, s.agent(ctx, w, name))
	}
	result.Messages = s.messages(w, names)
	return result
}
