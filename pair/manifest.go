package pair

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
)

// Version is the version of the manifests that this package writes, and the
// latest it reads.
const Version = 1

// Manifest is where a run stands, as manifest.json holds it. The fields that
// AgentPair has too have its names; version, base_commit, worktree_lost, cursors,
// acknowledged, task_record and turn are ours.
type Manifest struct {
	// Version tells the form of the file. AgentPair's own manifests have none.
	Version int `json:"version"`
	// ID, RepoPath and RepoID name the run.
	ID       int    `json:"id"`
	RepoPath string `json:"repo_path"`
	RepoID   string `json:"repo_id"`
	// Prompt to DoneSignal are the settings of the run.
	Prompt        string `json:"prompt"`
	State         State  `json:"state"`
	PrimaryAgent  Agent  `json:"primary_agent"`
	ReviewMode    Review `json:"review_mode"`
	MaxIterations int    `json:"max_iterations"`
	// CurrentIteration counts from 1; 0 before the first.
	CurrentIteration int `json:"current_iteration"`
	// ClaudeSessionID and CodexSessionID continue the agents' sessions.
	ClaudeSessionID string `json:"claude_session_id,omitempty"`
	CodexSessionID  string `json:"codex_session_id,omitempty"`
	// WorktreePath is where the agents work, if not in the repository itself,
	// and BaseCommit what the worktree was made from.
	WorktreePath string `json:"worktree_path,omitempty"`
	BaseCommit   string `json:"base_commit,omitempty"`
	// WorktreeLost says that the worktree was made again since the last turn.
	WorktreeLost bool   `json:"worktree_lost,omitempty"`
	TmuxSession  string `json:"tmux_session,omitempty"`
	ProofCommand string `json:"proof_command,omitempty"`
	DoneSignal   string `json:"done_signal"`

	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	CompletedAt *time.Time `json:"completed_at,omitempty"`
	// Error says why the run failed.
	Error string `json:"error,omitempty"`

	// Cursors stand behind what each agent was given of the bridge in turns
	// that are finished.
	Cursors map[Agent]bridge.Cursor `json:"cursors,omitempty"`
	// Acknowledged stand behind what has been acknowledged of that elsewhere.
	Acknowledged map[Agent]bridge.Cursor `json:"acknowledged,omitempty"`
	// TaskRecord is the id of the record that holds the task.
	TaskRecord string `json:"task_record,omitempty"`
	// Turn is the turn that is to be run, runs, or is to be decided on.
	Turn *Turn `json:"turn,omitempty"`
}

// Turn is the part of a Manifest that tells how far a turn is.
type Turn struct {
	Agent Agent `json:"agent"`
	// Reviewer counts the reviewers that have passed this iteration.
	Reviewer int `json:"reviewer,omitempty"`
	// Begun says that the agent may have seen the prompt, and Since marks the
	// end of the bridge log then.
	Begun bool          `json:"begun,omitempty"`
	Since bridge.Cursor `json:"since,omitempty"`
	// Answer is there when the agent has finished.
	Answer *Answer `json:"answer,omitempty"`
	// Proven says that the proof has succeeded on what is reviewed.
	Proven bool `json:"proven,omitempty"`
	// Proof is there when the proof has been run after the answer, and while it
	// runs ProofMark is on all that it starts.
	Proof     *ProofResult `json:"proof,omitempty"`
	ProofMark string       `json:"proof_mark,omitempty"`
}

// Answer is what a turn came to.
type Answer struct {
	Text      string        `json:"text"`
	Truncated bool          `json:"truncated,omitempty"`
	Signal    bridge.Signal `json:"signal,omitempty"`
	// InBridge says that the agent itself sent the signal through the bridge.
	InBridge bool `json:"in_bridge,omitempty"`
}

// lastWords are what is to be known where nothing follows the turn: what the
// proof printed that failed, otherwise the end of the answer, if there is one.
func (t *Turn) lastWords() string {
	switch {
	case t == nil || t.Answer == nil:
		return ""
	case t.Proof != nil && !t.Proof.Passed:
		_, output, _ := strings.Cut(t.Proof.Report, "\n")
		return output
	}
	return fmt.Sprintf("%s:\n%s", t.Agent, tail(t.Answer.Text, maxProofOutput))
}

// ProofResult is what a proof came to.
type ProofResult struct {
	Passed bool `json:"passed"`
	// Report is for the worker: what failed, and the end of the output.
	Report string `json:"report,omitempty"`
}

// Errors about manifests.
var (
	// ErrNewerVersion says that a later version of this program wrote the
	// manifest.
	ErrNewerVersion = errors.New("the manifest is of a newer version")
	// ErrForeignRun says that the run is not one that a pair can go on with.
	ErrForeignRun = errors.New("the run was not made by this program")
	// ErrDamaged says that the manifest is cut off or no manifest.
	ErrDamaged = errors.New("the manifest is damaged")
	// ErrNeverBegun says that there is a folder for the run and no manifest:
	// whoever made it did not come as far as to say what the run is about.
	ErrNeverBegun = errors.New("the run was never begun")
)

// maxManifest bounds a manifest in bytes: an answer and a prompt at their
// longest, escaped.
const maxManifest = 32 << 20

// ReadManifest reads the manifest of a run. Errors match ErrDamaged,
// ErrNewerVersion, ErrForeignRun, or ErrNeverBegun, and name the file.
func ReadManifest(run bridge.Run) (Manifest, error) {
	path := run.ManifestPath()
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fmt.Errorf("%w, or it has lost its manifest: %w", ErrNeverBegun, err)
	}
	if err != nil {
		return Manifest{}, err
	}
	defer file.Close() // it is only read
	data, err := io.ReadAll(io.LimitReader(file, maxManifest+1))
	if err == nil && len(data) > maxManifest {
		err = fmt.Errorf("%w: it is larger than %d bytes", ErrDamaged, maxManifest)
	}
	var m Manifest
	if err == nil {
		m, err = parseManifest(data)
	}
	if err == nil && m.ID != run.ID {
		err = fmt.Errorf("%w: it is of run %d", ErrDamaged, m.ID)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("manifest %s: %w", path, err)
	}
	return m, nil
}

func parseManifest(data []byte) (Manifest, error) {
	var version struct {
		Version int `json:"version"`
	}
	var m Manifest
	switch err := json.Unmarshal(data, &version); {
	case err != nil:
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	case version.Version > Version:
		return m, fmt.Errorf("%w: %d, and this program knows those up to %d", ErrNewerVersion, version.Version, Version)
	case version.Version < 1:
		return m, fmt.Errorf("%w: its manifest has no version", ErrForeignRun)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := m.check(); err != nil {
		return m, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, nil
}

// check looks for what no step leaves behind.
func (m *Manifest) check() error {
	if err := m.settings().check(); err != nil {
		return err
	}
	for _, places := range []map[Agent]bridge.Cursor{m.Cursors, m.Acknowledged} {
		_, claude := places[Claude]
		_, codex := places[Codex]
		if places != nil && !(claude && codex) || (places == nil) != (m.Cursors == nil) {
			return errors.New("cursors: there is not one of each kind for each agent")
		}
	}
	// A run that failed may never have begun.
	hasBegun := m.CurrentIteration > 0
	acts := m.State == Working || m.State == Reviewing
	switch {
	case !m.State.Known():
		return fmt.Errorf("state: %q is none", m.State)
	case m.CurrentIteration < 0 || hasBegun == (m.State == Init) && m.State != Failed:
		return fmt.Errorf("current_iteration: %d is none of a run that is %s", m.CurrentIteration, m.State)
	case hasBegun && m.Cursors == nil:
		return errors.New("cursors: a run that has begun has them")
	case hasBegun != (m.TaskRecord != ""):
		return errors.New("task_record: a run has one if it has begun")
	case acts != (m.Turn != nil):
		return fmt.Errorf("turn: a run that is %s has one exactly where an agent is to act", m.State)
	case acts:
		return m.checkTurn()
	}
	return nil
}

func (m *Manifest) checkTurn() error {
	turn, reviewers := m.Turn, m.settings().reviewers()
	isOf := m.State == Working && turn.Agent == m.PrimaryAgent && turn.Reviewer == 0 ||
		m.State == Reviewing && turn.Reviewer >= 0 && turn.Reviewer < len(reviewers) && turn.Agent == reviewers[turn.Reviewer]
	switch {
	case !isOf:
		return fmt.Errorf("turn: it is not that of %q as reviewer %d in a run that is %s", turn.Agent, turn.Reviewer, m.State)
	case turn.Proof != nil && turn.Answer == nil:
		return errors.New("turn: a proof is run after the answer")
	case turn.Answer != nil && turn.Answer.Signal != "" && !turn.Answer.Signal.Known():
		return fmt.Errorf("turn: %q is no signal", turn.Answer.Signal)
	}
	return nil
}

func (m *Manifest) settings() Settings {
	return Settings{
		Prompt: m.Prompt, Agent: m.PrimaryAgent, Review: m.ReviewMode, MaxIterations: m.MaxIterations,
		Proof: m.ProofCommand, Done: m.DoneSignal, Worktree: m.WorktreePath != "",
	}
}

// Agents lists who takes part, the worker first.
func (m *Manifest) Agents() []Agent { return m.settings().agents() }

// partner is who the worker's answers go to: the other agent where it takes
// part, otherwise whoever gave the task.
func (m *Manifest) partner() string {
	if agents := m.Agents(); len(agents) > 1 {
		return string(agents[1])
	}
	return User
}

// Dir is where the agents work.
func (m *Manifest) Dir() string {
	if m.WorktreePath != "" {
		return m.WorktreePath
	}
	return m.RepoPath
}

// SessionID returns what continues the agent's session, or nothing.
func (m *Manifest) SessionID(agent Agent) string {
	if agent == Claude {
		return m.ClaudeSessionID
	}
	return m.CodexSessionID
}

func (m *Manifest) setSession(agent Agent, id string) {
	switch {
	case id == "":
	case agent == Claude:
		m.ClaudeSessionID = id
	default:
		m.CodexSessionID = id
	}
}

func (m *Manifest) forgetSession(agent Agent) {
	if agent == Claude {
		m.ClaudeSessionID = ""
	} else {
		m.CodexSessionID = ""
	}
}

// write puts the manifest into its place, whole.
func (m *Manifest) write(run bridge.Run) error {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(m); err != nil {
		return err
	}
	return durable.Replace(run.ManifestPath(), data.Bytes(), 0o600)
}
