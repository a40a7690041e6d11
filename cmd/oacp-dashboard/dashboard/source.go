// Package dashboard is the command "oacp dashboard". It gathers snapshots of workspaces and runs, and a model shows
// them live in a terminal.
package dashboard

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/pair"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

const (
	// latestMessages is how many messages of a workspace a snapshot has.
	latestMessages = 100
	// latestRuns is how many runs a snapshot has.
	latestRuns = 50
)

// Snapshot is the state of workspaces and runs at one time.
type Snapshot struct {
	At         time.Time   `json:"at"`
	Workspaces []Workspace `json:"workspaces"`
	// Runs are the latest ones, the last updated first.
	Runs []Run `json:"runs"`
	// Problem says why runs are missing.
	Problem string `json:"problem,omitempty"`

	zone *time.Location // of the times on the screen
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
	track.AgentStatus
	// Inbox counts the message files in the inbox, valid or not.
	Inbox int `json:"inbox"`
	// Activity is the time of the last arrival, departure or turn.
	Activity time.Time `json:"activity,omitzero"`
	// Problem says what could not be read.
	Problem string `json:"problem,omitempty"`

	presence []string // see live.Presence
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
	// Stage is the most urgent of its Stages, one for each recipient.
	Stage  track.Stage                      `json:"stage,omitempty"`
	Stages map[schema.AgentName]track.Stage `json:"stages,omitempty"`
	// Error says why the message is not valid. The rest is what could be read of it.
	Error string `json:"error,omitempty"`

	parent  schema.ID
	arrived schema.Timestamp
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
	// Driven reports whether a process drives the run. It is nil for runs that have ended, and for those of
	// AgentPair, for which it is unknown.
	Driven  *bool         `json:"driven,omitempty"`
	Updated time.Time     `json:"updated"`
	Error   string        `json:"error,omitempty"` // why the run failed
	Bridge  bridge.Status `json:"bridge"`
	// CostUSD and Tokens are sums over all turns that have ended.
	CostUSD float64 `json:"cost_usd"`
	Tokens  int64   `json:"tokens"`
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
			if of == (target{}) || of.workspace == w.Dir && (m.From == of.agent || slices.Contains(m.To, of.agent)) {
				all = append(all, m)
			}
		}
	}
	if len(s.Workspaces) > 1 {
		sortMessages(all)
	}
	return all
}

// sortMessages puts messages in the order of a conversation.
func sortMessages(messages []Message) {
	conversation.Sort(messages, func(m Message) *schema.Message {
		return &schema.Message{ID: m.ID, ParentID: m.parent, CreatedAt: m.CreatedAt, Arrived: m.arrived}
	})
}

// run returns the run in a place.
func (s Snapshot) run(place bridge.Run) (Run, bool) {
	i := slices.IndexFunc(s.Runs, func(r Run) bool { return r.place == place })
	if i < 0 || place == (bridge.Run{}) {
		return Run{}, false
	}
	return s.Runs[i], true
}

// source says what a snapshot covers. The caller closes the workspaces.
type source struct {
	Workspaces []*mailbox.Workspace
	// RunsRoot is the folder of all runs, and RepositoryIDs are the repositories whose runs are shown.
	RunsRoot      string
	RepositoryIDs []string
	// Zone is the time zone of the times on the screen.
	Zone *time.Location
}

// gather returns a snapshot, which says what could not be read. The error is the context's.
func (s *source) gather(ctx context.Context) (Snapshot, error) {
	snapshot := Snapshot{At: time.Now().UTC().Truncate(time.Second), zone: s.Zone, Workspaces: []Workspace{}, Runs: []Run{}}
	for _, w := range s.Workspaces {
		snapshot.Workspaces = append(snapshot.Workspaces, workspaceOf(ctx, w))
	}
	var err error
	if snapshot.Runs, err = s.runs(ctx); err != nil {
		snapshot.Problem = err.Error()
	}
	return snapshot, context.Cause(ctx)
}

func workspaceOf(ctx context.Context, w *mailbox.Workspace) Workspace {
	result := Workspace{Dir: w.Dir(), Project: project.Name(w), Agents: []Agent{}, Messages: []Message{}}
	names, err := w.Agents()
	for _, name := range names {
		result.Agents = append(result.Agents, agentOf(ctx, w, name))
	}
	listed, listErr := track.List(ctx, w, track.Query{Limit: latestMessages})
	for _, m := range listed {
		result.Messages = append(result.Messages, messageOf(&m))
	}
	sortMessages(result.Messages)
	if err := errors.Join(err, listErr); err != nil {
		result.Problem = err.Error()
	}
	return result
}

func agentOf(ctx context.Context, w *mailbox.Workspace, name schema.AgentName) Agent {
	result := Agent{AgentStatus: track.AgentStatus{Agent: name}}
	statuses, err := track.Status(ctx, w, name)
	if err != nil {
		result.Problem = err.Error()
	} else {
		result.AgentStatus = statuses[0]
		result.presence, _ = live.Presence(w, &statuses[0], time.Now())
	}
	result.Inbox = result.Pending + result.Held + result.Expired + result.Invalid
	journal := filepath.Join(w.Dir(), track.TurnsFolder, track.JournalName(name))
	for _, path := range []string{w.BoxPath(name, mailbox.Inbox), w.BoxPath(name, mailbox.Outbox), journal} {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(result.Activity) {
			result.Activity = info.ModTime().UTC().Truncate(time.Second)
		}
	}
	return result
}

func messageOf(listed *track.Node) Message {
	m, problem := listed.Message, ""
	if listed.Err != nil {
		m, problem = command.Preview(&mailbox.Entry{Message: m, Err: listed.Err, Modified: listed.Files[0].Modified}), listed.Err.Error()
	}
	result := Message{
		ID: m.ID, From: m.From, To: m.To, Type: m.Type, Priority: m.Priority, CreatedAt: m.CreatedAt,
		Subject: m.Subject, ConversationID: m.ConversationID, Error: problem, parent: m.ParentID, arrived: m.Arrived,
		Stage: listed.Stage(), Stages: listed.Stages(),
	}
	if listed.IsHeld() {
		result.Stage = track.StageHeld
	}
	return result
}

// runs returns the latest runs, the last updated first.
func (s *source) runs(ctx context.Context) ([]Run, error) {
	runs := []Run{}
	overviews, err := pair.List(s.RunsRoot, s.RepositoryIDs...)
	for _, overview := range overviews[:min(len(overviews), latestRuns)] {
		runs = append(runs, runOf(ctx, overview))
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return cmp.Or(b.Updated.Compare(a.Updated), b.ID-a.ID) })
	return runs, err
}

func runOf(ctx context.Context, o pair.Overview) Run {
	m := &o.Manifest
	r := Run{
		ID: o.Run.ID, RepositoryID: o.Run.RepositoryID, Repository: m.RepoPath, Prompt: m.Prompt, State: m.State,
		Iteration: m.CurrentIteration, MaxIterations: m.MaxIterations, Turns: m.Waiting(), Error: m.Error,
		Updated: m.UpdatedAt.UTC().Truncate(time.Second),
		CostUSD: m.Spent.CostUSD, Tokens: m.Spent.InputTokens + m.Spent.OutputTokens, place: o.Run,
	}
	if len(r.Turns) > 0 {
		r.Turn = r.Turns[0]
	}
	var bridgeErr error
	r.Bridge, bridgeErr = o.Run.Status(ctx)
	isForeign, isLog := errors.Is(o.Err, pair.ErrForeignRun), errors.Is(o.Err, pair.ErrLogRun)
	if isForeign || isLog || errors.Is(o.Err, pair.ErrNeverBegun) {
		o.Err = nil // AgentPair drives the run, or the manifest is still to be written
	}
	switch {
	case isLog:
		r.State = stateLog
		if info, err := os.Stat(o.Run.BridgePath()); err == nil { // nobody updates its manifest
			r.Updated = info.ModTime().UTC().Truncate(time.Second)
		}
	case !isForeign && o.Err == nil && !r.State.Final():
		r.Driven = &o.Driven
	}
	if err := errors.Join(o.Err, bridgeErr); err != nil {
		r.Problem = err.Error()
	}
	return r
}
