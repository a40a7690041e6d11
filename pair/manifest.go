package pair

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
)

// manifestVersion is the version of the manifests that this package writes, and the latest it reads.
const manifestVersion = 2

// Manifest is the content of manifest.json, the state of a run. AgentPair has most of the fields, with
// the same names; version, base_commit, cursors, task_record, round, verdict and spent are ours.
type Manifest struct {
	bridge.Manifest
	// Version is the version of the format. AgentPair's own manifests have none.
	Version int `json:"version"`
	// ID and RepoID name the run.
	ID            int    `json:"id"`
	RepoID        string `json:"repo_id"`
	State         State  `json:"state"`
	ReviewMode    Review `json:"review_mode"`
	MaxIterations int    `json:"max_iterations"`
	// CurrentIteration counts from 1; 0 before the first.
	CurrentIteration int `json:"current_iteration"`
	// ClaudeSessionID and CodexSessionID continue the agents' sessions.
	ClaudeSessionID string `json:"claude_session_id,omitempty"`
	CodexSessionID  string `json:"codex_session_id,omitempty"`
	// WorktreePath is the agents' working folder if it is not RepoPath.
	WorktreePath string `json:"worktree_path,omitempty"`
	// BaseCommit is the commit or the tree that the run starts from: the commit of the worktree, or the
	// content of the repository with uncommitted changes. It is empty without a git repository.
	BaseCommit   string `json:"base_commit,omitempty"`
	ProofCommand string `json:"proof_command,omitempty"`
	DoneSignal   string `json:"done_signal"`

	UpdatedAt   time.Time  `json:"updated_at"`
	CompletedAt *time.Time `json:"completed_at,omitempty"`
	// Error says why the run failed.
	Error string `json:"error,omitempty"`

	// Cursors are the places up to which each agent has read the bridge in finished turns.
	Cursors Cursors `json:"cursors"`
	// TaskRecord is the id of the record with the task.
	TaskRecord string `json:"task_record,omitempty"`
	// Round has the current turns while the run is working or reviewing.
	Round *Round `json:"round,omitempty"`
	// Verdict is the last one.
	Verdict *Verdict `json:"verdict,omitempty"`
	// Spent is the usage of all turns that have ended.
	Spent Spent `json:"spent,omitzero"`
}

// Cursors are places in the bridge log, one for each agent. An empty cursor is the beginning.
type Cursors struct {
	Claude bridge.Cursor `json:"claude"`
	Codex  bridge.Cursor `json:"codex"`
}

// at returns an agent's place.
func (c *Cursors) at(name Agent) *bridge.Cursor {
	if name == Claude {
		return &c.Claude
	}
	return &c.Codex
}

// Round is the worker's turn, or those of the reviewers at the same time, with the proof after it.
type Round struct {
	Turns []*Turn `json:"turns"`
	// Proven reports that the proof succeeded before the review.
	Proven bool `json:"proven,omitempty"`
	// Proof is set when the proof has run after the answers. While it runs, ProofMark marks all
	// processes that it starts.
	Proof     *ProofResult `json:"proof,omitempty"`
	ProofMark string       `json:"proof_mark,omitempty"`
}

func newRound(agents ...Agent) *Round {
	round := new(Round)
	for _, name := range agents {
		round.Turns = append(round.Turns, &Turn{Agent: name})
	}
	return round
}

// open returns the turns without an answer.
func (r *Round) open() []*Turn {
	return slices.DeleteFunc(slices.Clone(r.Turns), func(t *Turn) bool { return t.Answer != nil })
}

// decisive returns the turn that decides a round whose turns have all ended: the first that did not end
// in the signal, or else the last one.
func (r *Round) decisive(signal bridge.Signal) *Turn {
	for _, turn := range r.Turns {
		if turn.Answer.Signal != signal {
			return turn
		}
	}
	return r.Turns[len(r.Turns)-1]
}

// proofOutput returns the output of the proof if it failed.
func (r *Round) proofOutput() string {
	if r == nil || r.Proof == nil || r.Proof.Passed {
		return ""
	}
	_, output, _ := strings.Cut(r.Proof.Report, "\n")
	return output
}

// Turn is the progress of a turn.
type Turn struct {
	Agent Agent `json:"agent"`
	// Begun reports that the agent may have received the prompt. Since is the end of the bridge log
	// before that.
	Begun bool          `json:"begun,omitempty"`
	Since bridge.Cursor `json:"since,omitempty"`
	// Answer is set when the agent has finished.
	Answer *Answer `json:"answer,omitempty"`
}

// Verdict is the signal of a reviewer, or of a worker without reviewers, at the end of its turn. It is
// empty if the agent gave none.
type Verdict struct {
	Agent  Agent         `json:"agent"`
	Signal bridge.Signal `json:"signal"`
}

// Spent is what turns have used up.
type Spent struct {
	Turns int `json:"turns"`
	// Duration is in nanoseconds.
	Duration time.Duration `json:"duration"`
	agent.Usage
}

// Answer is the result of a turn.
type Answer struct {
	Text      string        `json:"text"`
	Truncated bool          `json:"truncated,omitempty"`
	Signal    bridge.Signal `json:"signal,omitempty"`
	// InBridge reports that the agent itself sent the signal through the bridge.
	InBridge bool `json:"in_bridge,omitempty"`
}

// ProofResult is the result of a proof.
type ProofResult struct {
	Passed bool `json:"passed"`
	// Report tells the worker what failed, with the end of the output. LastLine is the line of it
	// that is most likely to say why.
	Report   string `json:"report,omitempty"`
	LastLine string `json:"last_line,omitempty"`
}

// Errors about manifests.
var (
	ErrNewerVersion = failure.New("foreign_run", "a newer version of this program wrote the manifest",
		"only the program that made the run can continue it")
	ErrForeignRun = failure.New("foreign_run", "another program created the run", "only the program that made the run can continue it")
	// ErrLogRun means that a mirror or oacp bridge made the run for its log; see bridge.Manifest.IsLog.
	ErrLogRun = failure.New("log_run", "the run is only a log, without a task and agents",
		"oacp pair PROMPT starts a run with agents; oacp bridge shows this log")
	ErrDamaged = failure.New("damaged_run", "the manifest is damaged", "inspect the folder of the run, and delete it if you do not need it")
	// ErrNeverBegun means that the run has a folder but no manifest.
	ErrNeverBegun = failure.New("never_begun", "the run never began", "oacp pair PROMPT starts a new run")
)

// ReadManifest reads the manifest of a run. Errors name the file and match ErrDamaged, ErrNewerVersion,
// ErrForeignRun, ErrLogRun or ErrNeverBegun. With ErrForeignRun and ErrLogRun, ReadManifest also returns the
// fields that it knows.
func ReadManifest(run bridge.Run) (Manifest, error) {
	path := run.ManifestPath()
	data, err := run.ReadManifest()
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fmt.Errorf("%w, or lost its manifest: %w", ErrNeverBegun, err)
	}
	var m Manifest
	if err == nil {
		m, err = parseManifest(data)
	}
	if err == nil && m.ID != run.ID {
		err = fmt.Errorf("%w: it belongs to run %d", ErrDamaged, m.ID)
	}
	if err != nil {
		return m, fmt.Errorf("manifest %s: %w", path, err)
	}
	return m, nil
}

func parseManifest(data []byte) (m Manifest, err error) {
	err = json.Unmarshal(data, &m)
	var mistyped *json.UnmarshalTypeError
	switch {
	case m.Version > manifestVersion:
		return m, fmt.Errorf("%w: version %d, and this program reads up to %d", ErrNewerVersion, m.Version, manifestVersion)
	case m.Version < 1 && err == nil && m.ID != 0 && m.IsLog():
		return m, ErrLogRun
	case m.Version < 1 && (err == nil || errors.As(err, &mistyped)):
		return m, fmt.Errorf("%w: its manifest has no version", ErrForeignRun)
	}
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, nil
}

// check returns an error for a manifest that no step writes.
func (m *Manifest) check() error {
	if err := m.settings().check(); err != nil {
		return err
	}
	hasTurn := m.State == Working || m.State == Reviewing
	switch {
	case !m.State.Known():
		return fmt.Errorf("state: %q is unknown", m.State)
	case hasTurn != (m.Round != nil):
		return fmt.Errorf("round: a run that is %s has a round if it is working or reviewing", m.State)
	case hasTurn:
		return m.checkRound()
	}
	return nil
}

func (m *Manifest) checkRound() error {
	expected := []Agent{Agent(m.PrimaryAgent)}
	if m.State == Reviewing {
		expected = m.settings().reviewers()
	}
	var agents []Agent
	for _, turn := range m.Round.Turns {
		if turn == nil || m.Round.Proof != nil && turn.Answer == nil {
			return errors.New("round: a turn lacks its answer, or is missing")
		}
		agents = append(agents, turn.Agent)
	}
	if !slices.Equal(agents, expected) {
		return fmt.Errorf("round: it has turns of %v, but %v have one in a run that is %s", agents, expected, m.State)
	}
	return nil
}

func (m *Manifest) settings() Settings {
	return Settings{
		Prompt: m.Prompt, Agent: Agent(m.PrimaryAgent), Review: m.ReviewMode, MaxIterations: m.MaxIterations,
		Proof: m.ProofCommand, Done: m.DoneSignal, Worktree: m.WorktreePath != "",
	}
}

// Waiting lists the agents that have not answered in the current round or, while the proof runs, the
// first agent of the round.
func (m *Manifest) Waiting() (agents []Agent) {
	if m.Round == nil {
		return nil
	}
	for _, turn := range m.Round.open() {
		agents = append(agents, turn.Agent)
	}
	if len(agents) == 0 { // the proof runs
		agents = append(agents, m.Round.Turns[0].Agent)
	}
	return agents
}

// Dir is the agents' working folder.
func (m *Manifest) Dir() string {
	if m.WorktreePath != "" {
		return m.WorktreePath
	}
	return m.RepoPath
}

// session returns the field with the agent's session id.
func (m *Manifest) session(name Agent) *string {
	if name == Claude {
		return &m.ClaudeSessionID
	}
	return &m.CodexSessionID
}
