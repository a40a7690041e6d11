package pair

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
)

// Version is the version of the manifests that this package writes, and the latest it reads.
const Version = 1

// Manifest is the content of manifest.json, the state of a run. Fields that AgentPair has too have
// its names; version, base_commit, worktree_lost, cursors, acknowledged, task_record and turn are
// ours. Unknown fields are kept.
type Manifest struct {
	bridge.Manifest
	// Version is the version of the format. AgentPair's own manifests have none.
	Version int `json:"version"`
	// ID and RepoID name the run.
	ID     int    `json:"id"`
	RepoID string `json:"repo_id"`
	// State to DoneSignal are the settings and the state of the run.
	State         State  `json:"state"`
	ReviewMode    Review `json:"review_mode"`
	MaxIterations int    `json:"max_iterations"`
	// CurrentIteration counts from 1; 0 before the first.
	CurrentIteration int `json:"current_iteration"`
	// ClaudeSessionID and CodexSessionID continue the agents' sessions.
	ClaudeSessionID string `json:"claude_session_id,omitempty"`
	CodexSessionID  string `json:"codex_session_id,omitempty"`
	// WorktreePath is the agents' working folder if it is not RepoPath, and BaseCommit the commit
	// from which the worktree was made.
	WorktreePath string `json:"worktree_path,omitempty"`
	BaseCommit   string `json:"base_commit,omitempty"`
	// WorktreeLost reports that the worktree was made again since the last turn.
	WorktreeLost bool   `json:"worktree_lost,omitempty"`
	TmuxSession  string `json:"tmux_session,omitempty"`
	ProofCommand string `json:"proof_command,omitempty"`
	DoneSignal   string `json:"done_signal"`

	UpdatedAt   time.Time  `json:"updated_at"`
	CompletedAt *time.Time `json:"completed_at,omitempty"`
	// Error says why the run failed.
	Error string `json:"error,omitempty"`

	// Cursors are the ends of what each agent has read of the bridge in finished turns.
	Cursors map[Agent]bridge.Cursor `json:"cursors,omitempty"`
	// Acknowledged are the ends of what Options.Acknowledge has received of that.
	Acknowledged map[Agent]bridge.Cursor `json:"acknowledged,omitempty"`
	// TaskRecord is the id of the record with the task.
	TaskRecord string `json:"task_record,omitempty"`
	// Turn is the current turn while the run is working or reviewing.
	Turn *Turn `json:"turn,omitempty"`
}

// Turn is the progress of a turn.
type Turn struct {
	Agent Agent `json:"agent"`
	// Reviewer counts the reviewers that have passed this iteration.
	Reviewer int `json:"reviewer,omitempty"`
	// Begun reports that the agent may have received the prompt, and Since is the end of the bridge
	// log at that time.
	Begun bool          `json:"begun,omitempty"`
	Since bridge.Cursor `json:"since,omitempty"`
	// Answer is set when the agent has finished.
	Answer *Answer `json:"answer,omitempty"`
	// Proven reports that the proof succeeded before the review.
	Proven bool `json:"proven,omitempty"`
	// Proof is set when the proof has run after the answer. While it runs, ProofMark marks all
	// processes that it starts.
	Proof     *ProofResult `json:"proof,omitempty"`
	ProofMark string       `json:"proof_mark,omitempty"`
}

// Answer is the result of a turn.
type Answer struct {
	Text      string        `json:"text"`
	Truncated bool          `json:"truncated,omitempty"`
	Signal    bridge.Signal `json:"signal,omitempty"`
	// InBridge reports that the agent itself sent the signal through the bridge.
	InBridge bool `json:"in_bridge,omitempty"`
}

// lastOutput is the output that explains the failure of a run: that of the failed proof, otherwise
// the end of the answer.
func (t *Turn) lastOutput() string {
	switch {
	case t == nil || t.Answer == nil:
		return ""
	case t.Proof != nil && !t.Proof.Passed:
		_, output, _ := strings.Cut(t.Proof.Report, "\n")
		return output
	}
	return fmt.Sprintf("%s:\n%s", t.Agent, tail(t.Answer.Text, maxProofOutput))
}

// ProofResult is the result of a proof.
type ProofResult struct {
	Passed bool `json:"passed"`
	// Report tells the worker what failed, with the end of the output.
	Report string `json:"report,omitempty"`
}

// Errors about manifests.
var (
	ErrNewerVersion = errors.New("a newer version of this program wrote the manifest")
	ErrForeignRun   = errors.New("another program made the run")
	ErrDamaged      = errors.New("the manifest is damaged")
	// ErrNeverBegun means that the run has a folder but no manifest.
	ErrNeverBegun = errors.New("the run never began")
)

// ReadManifest reads the manifest of a run. Errors match ErrDamaged, ErrNewerVersion, ErrForeignRun
// or ErrNeverBegun, and name the file. With ErrForeignRun, ReadManifest also returns the fields
// that it knows.
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
	m.Unknown, err = bridge.DecodeManifest(data, &m)
	var mistyped *json.UnmarshalTypeError
	switch {
	case m.Version > Version:
		return m, fmt.Errorf("%w: version %d, and this program reads up to %d", ErrNewerVersion, m.Version, Version)
	case m.Version < 1 && (err == nil || errors.As(err, &mistyped)):
		return m, fmt.Errorf("%w: its manifest has no version", ErrForeignRun)
	case err == nil:
		err = m.check()
	}
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, nil
}

// check returns an error for a manifest that no step leaves behind.
func (m *Manifest) check() error {
	if err := m.settings().check(); err != nil {
		return err
	}
	for _, cursors := range []map[Agent]bridge.Cursor{m.Cursors, m.Acknowledged} {
		_, claude := cursors[Claude]
		_, codex := cursors[Codex]
		if cursors != nil && !(claude && codex) || (cursors == nil) != (m.Cursors == nil) {
			return errors.New("cursors: each agent must have one of each kind")
		}
	}
	hasTurn := m.State == Working || m.State == Reviewing
	switch {
	case !m.State.Known():
		return fmt.Errorf("state: %q is unknown", m.State)
	case hasTurn && m.Cursors == nil:
		return errors.New("cursors: missing in a run that has begun")
	case hasTurn != (m.Turn != nil):
		return fmt.Errorf("turn: a run that is %s has a turn if it is working or reviewing", m.State)
	case hasTurn:
		return m.checkTurn()
	}
	return nil
}

func (m *Manifest) checkTurn() error {
	turn, reviewers := m.Turn, m.settings().reviewers()
	isWork := m.State == Working && string(turn.Agent) == m.PrimaryAgent && turn.Reviewer == 0
	isReview := m.State == Reviewing && turn.Reviewer >= 0 && turn.Reviewer < len(reviewers) && turn.Agent == reviewers[turn.Reviewer]
	switch {
	case !isWork && !isReview:
		return fmt.Errorf("turn: %q as reviewer %d has no turn in a run that is %s", turn.Agent, turn.Reviewer, m.State)
	case turn.Proof != nil && turn.Answer == nil:
		return errors.New("turn: a proof without an answer")
	}
	return nil
}

func (m *Manifest) settings() Settings {
	return Settings{
		Prompt: m.Prompt, Agent: Agent(m.PrimaryAgent), Review: m.ReviewMode, MaxIterations: m.MaxIterations,
		Proof: m.ProofCommand, Done: m.DoneSignal, Worktree: m.WorktreePath != "",
	}
}

// Agents lists the agents of the run, the worker first.
func (m *Manifest) Agents() []Agent { return m.settings().agents() }

// Dir is the agents' working folder.
func (m *Manifest) Dir() string {
	if m.WorktreePath != "" {
		return m.WorktreePath
	}
	return m.RepoPath
}

// session returns the field with the agent's session id.
func (m *Manifest) session(agent Agent) *string {
	if agent == Claude {
		return &m.ClaudeSessionID
	}
	return &m.CodexSessionID
}

// write replaces the manifest of the run.
func (m *Manifest) write(run bridge.Run) error { return run.WriteManifest(m, m.Unknown) }
