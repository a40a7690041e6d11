// Package mailbox is the workspace in which agents exchange messages: it
// finds and makes workspaces, delivers messages into inboxes, lists, finds
// and follows them, and takes them out again when they are dealt with.
//
// A message that Send accepted is on disk in every recipient's inbox, whole,
// once, whatever dies when. See Send for how.
package mailbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// Names in a workspace.
const (
	markerName   = "workspace.json"
	agentsName   = "agents"
	stateName    = "state"
	outgoingName = stateName + "/outgoing"
)

// A Box is one of the folders of a mailbox.
type Box string

// The folders of a mailbox.
const (
	// Inbox holds what waits for the agent. Others write into it; only the
	// agent removes from it.
	Inbox Box = "inbox"
	// Outbox holds a copy of each message the agent sent.
	Outbox Box = "outbox"
	// DeadLetters holds what could not be handled, each with a reason.
	DeadLetters Box = "dead_letter"
	// Archive holds what was acknowledged and is kept.
	Archive Box = "archive"
)

// boxes is the order in which a message is looked for.
var boxes = []Box{Inbox, Archive, DeadLetters, Outbox}

// Workspace is an open workspace. It may be used by many goroutines, and any
// number of processes may have the same one open.
type Workspace struct {
	dir   string
	root  *os.Root
	files fileSystem

	now    func() time.Time
	random io.Reader
}

// Options changes how a workspace is used. The zero value is the default.
type Options struct {
	// NoSync skips every fsync, and nothing else: a crash of the machine may
	// lose messages that Send accepted, a crash of the process may not.
	NoSync bool
}

// ErrNoWorkspace is returned where a workspace was looked for and none was
// found.
var ErrNoWorkspace = errors.New("no workspace")

// Open opens the workspace in the folder, which must hold a folder agents.
// The options may be nil.
func Open(dir string, options *Options) (*Workspace, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening workspace %s: %w", dir, err)
	}
	root, err := os.OpenRoot(absolute)
	if err != nil {
		return nil, fmt.Errorf("opening workspace %s: %w", dir, noWorkspace(err))
	}
	info, err := root.Stat(agentsName)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", agentsName)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening workspace %s: %w", absolute, noWorkspace(err)), root.Close())
	}
	var sync = options == nil || !options.NoSync
	return &Workspace{dir: absolute, root: root, files: disk{sync: sync}, now: time.Now, random: rand.Reader}, nil
}

func noWorkspace(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrNoWorkspace, err)
	}
	return err
}

// Close releases the workspace.
func (w *Workspace) Close() error { return w.root.Close() }

// Dir returns the workspace's absolute path.
func (w *Workspace) Dir() string { return w.dir }

// BoxPath returns the path of a folder of an agent's mailbox.
func (w *Workspace) BoxPath(agent schema.AgentName, box Box) string {
	return filepath.Join(w.dir, boxName(agent, box))
}

// boxName is the path of a box below the workspace. The agent's name has been
// checked by whoever holds one that came from outside.
func boxName(agent schema.AgentName, box Box) string {
	return agentsName + "/" + string(agent) + "/" + string(box)
}

// openBox opens a folder of a mailbox.
func (w *Workspace) openBox(agent schema.AgentName, box Box) (*durable.Dir, error) {
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return nil, err
	}
	if !slices.Contains(boxes, box) {
		return nil, fmt.Errorf("a mailbox has no folder %q", box)
	}
	return durable.OpenDir(w.root, w.dir, boxName(agent, box))
}

// makeBox opens a folder of a known agent's mailbox, which is made on demand.
func (w *Workspace) makeBox(agent schema.AgentName, box Box) (*durable.Dir, error) {
	dir, err := w.openBox(agent, box)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := w.makeFolder(boxName(agent, box)); err != nil {
		return nil, err
	}
	return w.openBox(agent, box)
}

// makeFolder makes a folder and its parents, and makes their names durable.
func (w *Workspace) makeFolder(name string) error {
	var made []string
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		switch err := w.root.Mkdir(name[:i], 0o755); {
		case err == nil:
			made = append(made, filepath.Dir(name[:i]))
		case !errors.Is(err, fs.ErrExist):
			return fmt.Errorf("making folder %s: %w", filepath.Join(w.dir, name[:i]), err)
		}
	}
	for _, parent := range made {
		dir, err := durable.OpenDir(w.root, w.dir, parent)
		if err != nil {
			return err
		}
		if err := errors.Join(w.files.syncDir(dir), dir.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Agents returns the names of the agents that the workspace knows: those
// with a folder below agents. Names that are no agent names are left out.
func (w *Workspace) Agents() ([]schema.AgentName, error) {
	entries, err := fs.ReadDir(w.root.FS(), agentsName)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", filepath.Join(w.dir, agentsName), err)
	}
	var agents []schema.AgentName
	for _, entry := range entries {
		name, err := schema.ParseAgentName(entry.Name())
		if err == nil && (entry.IsDir() || w.Knows(name)) {
			agents = append(agents, name)
		}
	}
	slices.Sort(agents)
	return agents, nil
}

// Knows reports whether the workspace has a folder for the agent.
func (w *Workspace) Knows(agent schema.AgentName) bool {
	if !agent.Valid() {
		return false
	}
	info, err := w.root.Stat(agentsName + "/" + string(agent))
	return err == nil && info.IsDir()
}

// UnknownAgentError says that a workspace has no such agent.
type UnknownAgentError struct {
	Agent schema.AgentName
	// Known are the agents that the workspace has, the nearest names first.
	Known []schema.AgentName
	// Workspace is the path of the workspace.
	Workspace string
}

// Error names the agent and the known ones.
func (e *UnknownAgentError) Error() string {
	known := "it has none"
	if len(e.Known) > 0 {
		names := make([]string, len(e.Known))
		for i, name := range e.Known {
			names[i] = string(name)
		}
		known = "it has " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("workspace %s has no agent %q: %s", e.Workspace, e.Agent, known)
}

// CheckAgent returns an *UnknownAgentError when the workspace does not know
// the agent, and an error when it is no agent name at all.
func (w *Workspace) CheckAgent(agent schema.AgentName) error {
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return err
	}
	if w.Knows(agent) {
		return nil
	}
	known, err := w.Agents()
	if err != nil {
		return err
	}
	sortByDistance(known, agent)
	return &UnknownAgentError{Agent: agent, Known: known, Workspace: w.dir}
}

func sortByDistance[Name ~string](names []Name, to Name) {
	distance := func(n Name) int {
		return levenshtein.ComputeDistance(strings.ToLower(string(n)), strings.ToLower(string(to)))
	}
	slices.SortStableFunc(names, func(a, b Name) int { return distance(a) - distance(b) })
}
