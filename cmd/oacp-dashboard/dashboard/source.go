// Package dashboard is the command "oacp dashboard". A source gathers snapshots of workspaces and
// runs at a cost that follows what has changed, and a model shows them live in a terminal.
package dashboard

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/pair"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// Snapshot is the state of workspaces and runs at one time.
type Snapshot struct {
	At         time.Time   `json:"at"`
	Workspaces []Workspace `json:"workspaces"`
	// Runs are the latest of each repository, the last updated first.
	Runs []Run `json:"runs"`
	// Problem says why runs are missing.
	Problem string `json:"problem,omitempty"`

	zone *time.Location // of the times that people read
}

// Workspace is the state of a workspace.
type Workspace struct {
	Dir     string  `json:"dir"`
	Project string  `json:"project,omitempty"`
	Agents  []Agent `json:"agents"`
	// Messages are the latest ones, the oldest first.
	Messages []Message `json:"messages"`
	// Problem says what could not be read.
	Problem string `json:"problem,omitempty"`
}

// Agent is the state of an agent.
type Agent struct {
	// AgentStatus may be older than the rest if the inbox is large.
	track.AgentStatus
	// Inbox counts the message files in the inbox, valid or not.
	Inbox int `json:"inbox"`
	// Activity is the time of the last arrival, departure or turn.
	Activity time.Time `json:"activity,omitzero"`
	// Problem says what could not be read.
	Problem string `json:"problem,omitempty"`
}

// Message is a message without its body.
type Message struct {
	ID             schema.ID             `json:"id"`
	From           schema.AgentName      `json:"from"`
	To             []schema.AgentName    `json:"to"`
	Type           schema.Type           `json:"type"`
	Priority       schema.Priority       `json:"priority"`
	CreatedAt      schema.Timestamp      `json:"created_at_utc"`
	Subject        string                `json:"subject"`
	ConversationID schema.ConversationID `json:"conversation_id,omitempty"`
	// Waiting are the agents that have it in their inbox, and Dead those that have it among their
	// dead letters.
	Waiting []schema.AgentName `json:"waiting,omitempty"`
	Dead    []schema.AgentName `json:"dead,omitempty"`
	// Error says why the message is not valid. The rest is what could be read of it.
	Error string `json:"error,omitempty"`

	parent schema.ID
	// recorded is when the journal of the inbox last recorded a turn.
	recorded time.Time
}

// Run is the state of a run of a pair.
type Run struct {
	ID           int    `json:"id"`
	RepositoryID string `json:"repository_id"`
	Repository   string `json:"repository,omitempty"`
	Prompt       string `json:"prompt"`
	// State is stateLog for a run without agents.
	State         pair.State `json:"state"`
	Iteration     int        `json:"iteration"`
	MaxIterations int        `json:"max_iterations"`
	// Turns are the agents whose turn it is, and Turn is the first of them.
	Turn  pair.Agent   `json:"turn,omitempty"`
	Turns []pair.Agent `json:"turns,omitempty"`
	// Driven reports whether a process drives the run. It is nil for runs that are over, and for
	// AgentPair's own, for which that is unknown.
	Driven  *bool         `json:"driven,omitempty"`
	Updated time.Time     `json:"updated"`
	Error   string        `json:"error,omitempty"` // why the run failed
	Bridge  bridge.Status `json:"bridge"`
	// CostUSD and Tokens are sums over all turns, also failed ones. UnpricedTokens are those of
	// turns without a known cost: codex reports none.
	CostUSD        float64 `json:"cost_usd"`
	Tokens         int64   `json:"tokens"`
	UnpricedTokens int64   `json:"unpriced_tokens"`
	// Problem says what could not be read.
	Problem string `json:"problem,omitempty"`

	place bridge.Run
}

// stateLog is the state of a run that consists of a log only, which a mirror writes.
const stateLog pair.State = "log"

// messages returns the messages of all workspaces, or those of one agent, the oldest first.
func (s Snapshot) messages(of target) []Message {
	var all []Message
	for _, w := range s.Workspaces {
		for _, m := range w.Messages {
			if of == (target{}) || of.folder == w.Dir && (m.From == of.agent || slices.Contains(m.To, of.agent)) {
				all = append(all, m)
			}
		}
	}
	if len(s.Workspaces) > 1 {
		sortMessages(all)
	}
	return all
}

// run returns the run in a folder.
func (s Snapshot) run(folder string) (Run, bool) {
	i := slices.IndexFunc(s.Runs, func(r Run) bool { return r.place.Folder == folder })
	if i < 0 || folder == "" {
		return Run{}, false
	}
	return s.Runs[i], true
}

// config selects what a source looks at.
type config struct {
	Workspaces []*mailbox.Workspace
	// RunsRoot is the folder of all runs; empty means no runs.
	RunsRoot string
	// RepositoryID limits the runs to one repository; empty means all.
	RepositoryID string
	// Zone is that of the times that people read; nil means UTC.
	Zone *time.Location
}

// source gathers snapshots. It reads again only what has changed: folders whose time has, each
// message once, logs and transcripts from the end of the last reading. It is not safe for
// concurrent use.
type source struct {
	config   config
	listings map[string]*listing
	statuses map[string]*statusReading
	texts    map[string]*messageReading
	runs     map[string]*runReading
	current  int // the number of this snapshot
}

// newSource returns a source. The caller closes the workspaces.
func newSource(config config) *source {
	config.Zone = cmp.Or(config.Zone, time.UTC)
	return &source{
		config: config, listings: make(map[string]*listing), statuses: make(map[string]*statusReading),
		texts: make(map[string]*messageReading), runs: make(map[string]*runReading),
	}
}

// gather returns a snapshot, which says what could not be read. The error is the context's.
func (s *source) gather(ctx context.Context) (Snapshot, error) {
	s.current++
	snapshot := Snapshot{At: time.Now().UTC().Truncate(time.Second), zone: s.config.Zone, Workspaces: []Workspace{}, Runs: []Run{}}
	for _, w := range s.config.Workspaces {
		snapshot.Workspaces = append(snapshot.Workspaces, s.workspace(ctx, w))
	}
	s.gatherRuns(ctx, &snapshot)
	// Forget what is not there any more.
	maps.DeleteFunc(s.texts, func(_ string, m *messageReading) bool { return m.seen != s.current })
	maps.DeleteFunc(s.runs, func(_ string, r *runReading) bool { return r.seen != s.current })
	return snapshot, context.Cause(ctx)
}

func (s *source) workspace(ctx context.Context, w *mailbox.Workspace) Workspace {
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

// fileMark changes when a file does.
type fileMark struct {
	modified time.Time
	size     int64
}

func markOf(path string) fileMark {
	info, err := os.Stat(path)
	if err != nil {
		return fileMark{}
	}
	return fileMark{info.ModTime(), info.Size()}
}
