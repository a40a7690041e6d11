package mailbox

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
)

// outgoingName is the folder of staged copies.
const outgoingName = schema.StateName + "/outgoing"

// A Box is one of the folders of a mailbox.
type Box = schema.Box

// The folders of a mailbox.
const (
	Inbox       = schema.Inbox
	Outbox      = schema.Outbox
	DeadLetters = schema.DeadLetters
	Archive     = schema.Archive
)

// Workspace is an open workspace. Any number of goroutines may use it, and any number of processes
// may have the same workspace open.
type Workspace struct {
	dir   string
	root  *os.Root
	files durable.FileSystem
	sign  SignFunc
	// home returns the user's home. It may be nil.
	home   func() (string, error)
	screen ScreenFunc
	// viewer returns the agent that looks at the workspace, empty for a person.
	viewer func() schema.AgentName
	// long gives every message a long file name and id: machines that exchange mailboxes through git
	// would choose the same short ones.
	long bool

	now    func() time.Time
	random io.Reader
	times  *schema.Clock // of the ids of sent messages
}

// Options configures a workspace. The zero value is the default.
type Options struct {
	// NoSync skips every fsync, and nothing else: a crash of the machine may lose sent messages, a
	// crash of the process does not.
	NoSync bool
	// Sign, if not nil, signs the messages that are sent.
	Sign SignFunc
	// Home returns the user's home, which holds the keys and what the user allows. Without it there are none.
	Home func() (string, error)
	// Screen decides which files are read. Without it, no file is read for an agent whose settings may
	// require verified messages.
	Screen ScreenFunc
	// Viewer returns the agent that looks at the workspace, empty for a person. It is called at most once.
	Viewer func(*Workspace) schema.AgentName
}

// A SignFunc signs a message if asked is set or the sender's settings require it: it sets Auth and
// File, and returns the signed file. Otherwise it returns the file as it is.
type SignFunc func(w *Workspace, m *schema.Message, file []byte, asked bool) ([]byte, error)

// unsigned is the SignFunc of a workspace without keys.
func unsigned(_ *Workspace, _ *schema.Message, file []byte, asked bool) ([]byte, error) {
	if asked {
		return nil, errors.New("the workspace was opened without keys")
	}
	return file, nil
}

// ErrNoWorkspace is returned if there is no workspace.
var ErrNoWorkspace = failure.New("no_workspace", "no workspace",
	"create one with oacp init, or with oacp init --git to share it; --dir names one elsewhere")

// Open opens the workspace in the folder, which must contain a folder named agents or a
// workspace.json. If git may carry its messages to other machines, they get long file names and ids.
// The options may be nil.
func Open(dir string, options *Options) (*Workspace, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening workspace %s: %w", dir, err)
	}
	root, err := durable.OpenRoot(absolute)
	if err != nil {
		return nil, fmt.Errorf("opening workspace %s: %w", dir, noWorkspace(err))
	}
	if _, noMarker := root.Lstat(schema.MarkerName); noMarker != nil { // with one, there may be no agents
		if _, err := durable.StatFolder(root, absolute, schema.AgentsName); err != nil {
			return nil, errors.Join(fmt.Errorf("opening workspace %s: %w", absolute, noWorkspace(err)), root.Close())
		}
	}
	options = cmp.Or(options, &Options{})
	w := &Workspace{
		dir: absolute, root: root, files: durable.Disk{Sync: !options.NoSync}, sign: unsigned, home: options.Home, screen: screenWithoutKeys,
		viewer: func() schema.AgentName { return "" }, long: inGit(root, absolute),
		now: time.Now, random: rand.Reader, times: &sendTimes,
	}
	if options.Sign != nil {
		w.sign = options.Sign
	}
	if options.Screen != nil {
		w.screen = options.Screen
	}
	if options.Viewer != nil {
		w.viewer = sync.OnceValue(func() schema.AgentName { return options.Viewer(w) })
	}
	return w, nil
}

// inGit reports whether a workspace is a git repository, or is in one and has rules for git in agents.
func inGit(root *os.Root, dir string) bool {
	_, noRepository := root.Lstat(".git")
	_, noAttributes := root.Lstat(schema.AgentsName + "/.gitattributes")
	if noRepository == nil || noAttributes != nil {
		return noRepository == nil
	}
	top, err := git.Top(dir)
	return err == nil && top != ""
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

// Home returns the user's home, empty if the workspace was opened without.
func (w *Workspace) Home() (string, error) {
	if w.home == nil {
		return "", nil
	}
	return w.home()
}

// Root returns the workspace's folder, through which other packages open the files in it. It is
// closed with the workspace.
func (w *Workspace) Root() *os.Root { return w.root }

// BoxPath returns the path of a folder of an agent's mailbox.
func (w *Workspace) BoxPath(agent schema.AgentName, box Box) string {
	return filepath.Join(w.dir, schema.BoxPath(agent, box))
}

// MakeFolder creates a folder and its parents below the workspace, and makes their names durable.
func (w *Workspace) MakeFolder(name string) error {
	parent := "."
	for part := range strings.SplitSeq(name, "/") {
		below := path.Join(parent, part)
		err := durable.MakeDir(w.root, below)
		switch {
		case err == nil:
			err = syncFolder(w, parent)
		case errors.Is(err, fs.ErrExist):
			_, err = durable.StatFolder(w.root, w.dir, below)
		}
		if err != nil {
			return fmt.Errorf("creating folder %s: %w", filepath.Join(w.dir, below), err)
		}
		parent = below
	}
	return nil
}

func syncFolder(w *Workspace, name string) error {
	dir, err := durable.OpenDir(w.root, w.dir, name)
	if err != nil {
		return err
	}
	return errors.Join(w.files.SyncDir(dir), dir.Close())
}

// makeState makes the folder of this machine's cursors, locks and outgoing copies. It has a .gitignore, so git never
// takes it.
func makeState(w *Workspace) error {
	if err := w.MakeFolder(schema.StateName); err != nil {
		return err
	}
	if _, err := w.AddFile(schema.StateName+"/.gitignore", []byte("*\n")); err != nil {
		return err
	}
	return w.MakeFolder(outgoingName)
}

// MakeStateFolder creates a folder below state, such as state/turns, and keeps state out of git.
func (w *Workspace) MakeStateFolder(name string) error {
	name = filepath.ToSlash(name)
	if path.Clean(name) != name || !strings.HasPrefix(name, schema.StateName+"/") {
		return fmt.Errorf("creating folder %s: it is not in state", name)
	}
	if _, err := durable.StatFolder(w.root, w.dir, name); err == nil {
		return nil
	}
	if err := makeState(w); err != nil {
		return err
	}
	return w.MakeFolder(name)
}

// OpenStateFolder opens a folder below state, which it makes if it is missing.
func (w *Workspace) OpenStateFolder(name string) (*durable.Dir, error) {
	if err := w.MakeStateFolder(name); err != nil {
		return nil, err
	}
	return durable.OpenDir(w.root, w.dir, name)
}

// AddFile writes a file below the workspace durably unless it exists, and reports whether it wrote
// the file.
func (w *Workspace) AddFile(name string, data []byte) (added bool, err error) {
	dir, err := durable.OpenDir(w.root, w.dir, path.Dir(name))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if here, err := dir.Exists(path.Base(name)); here || err != nil {
		return false, err
	}
	err = durable.AddFile(w.files, dir, path.Base(name), data)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// UnaskedFolder has an empty file for each agent that init made by default. If the workspace joins one
// that has agents, such an agent stays on its machine until somebody uses it.
const UnaskedFolder = schema.StateName + "/unasked"

// Agents returns the agents of the workspace, sorted: the folders below agents whose names are
// valid agent names.
func (w *Workspace) Agents() ([]schema.AgentName, error) {
	names, err := durable.ListFolder(w.root, w.dir, schema.AgentsName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var agents []schema.AgentName
	for _, name := range names {
		if agent := schema.AgentName(name); w.Knows(agent) {
			agents = append(agents, agent)
		}
	}
	slices.Sort(agents)
	return agents, nil
}

// Knows reports whether the workspace has a folder for the agent. It also returns true if it cannot
// tell: using the folder then returns the error.
func (w *Workspace) Knows(agent schema.AgentName) bool {
	if !agent.Valid() {
		return false
	}
	err := findAgent(w, agent)
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, durable.ErrLink) && !errors.Is(err, durable.ErrNotFolder)
}

func findAgent(w *Workspace, agent schema.AgentName) error {
	_, err := durable.StatFolder(w.root, w.dir, schema.AgentsName+"/"+string(agent))
	return err
}

// UnknownAgentError is returned if a workspace does not have an agent.
type UnknownAgentError struct {
	Agent schema.AgentName
	// Known are the agents of the workspace, the most similar names first.
	Known []schema.AgentName
	// Removed says that there was one, which was removed.
	Removed bool
	// Workspace is the path of the workspace.
	Workspace string
}

func (e *UnknownAgentError) Error() string {
	known := "it has none"
	if len(e.Known) > 0 {
		known = "it has " + spelling.Join(e.Known)
	}
	return fmt.Sprintf("workspace %s has no agent %q: %s", e.Workspace, e.Agent, known)
}

func (e *UnknownAgentError) Explain() (code, hint string) {
	other := "oacp add-agent " + string(e.Agent) + " adds it"
	if e.Removed {
		return "unknown_agent", other + " again, for it was removed; oacp restore ID then returns its mail"
	}
	if len(e.Known) == 0 {
		other = "oacp sync returns the agents of a synced workspace; " + other
	}
	return "unknown_agent", spelling.DidYouMean(e.Known, string(e.Agent), other)
}

// CheckAgent returns an *UnknownAgentError if the workspace does not have the agent, and another
// error if the name is not valid or its folder cannot be used.
func (w *Workspace) CheckAgent(agent schema.AgentName) error {
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return err
	}
	if err := findAgent(w, agent); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known, err := w.Agents()
	if err != nil {
		return err
	}
	spelling.SortByDistance(known, string(agent))
	return &UnknownAgentError{Agent: agent, Known: known, Removed: wasRemoved(w, agent), Workspace: w.dir}
}
