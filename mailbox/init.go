package mailbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// specVersion is the version of the protocol that a workspace declares.
const specVersion = "0.4.0"

// InitOptions says what a new workspace is to hold.
type InitOptions struct {
	// Project is the name in workspace.json; empty means the folder's name.
	Project string
	// Repository is the path of the repository that the workspace is for.
	Repository string
	// Agents get mailboxes.
	Agents []schema.AgentName
	// Now is the time of creation.
	Now time.Time
}

// marker is workspace.json, with the fields of the reference implementation.
type marker struct {
	ProjectName string  `json:"project_name"`
	RepoPath    *string `json:"repo_path"`
	CreatedAt   string  `json:"created_at"`
	UpdatedAt   string  `json:"updated_at"`
	SpecVersion string  `json:"spec_version"`
}

// Init makes a workspace in the folder, or completes the one that is there;
// what exists is never changed. It returns the paths that it made.
func Init(dir string, options InitOptions) (made []string, err error) {
	for _, agent := range options.Agents {
		if err := checkNewAgent(agent); err != nil {
			return nil, err
		}
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("making workspace %s: %w", dir, err)
	}
	if err := os.MkdirAll(filepath.Join(absolute, agentsName), 0o755); err != nil {
		return nil, fmt.Errorf("making workspace %s: %w", dir, err)
	}
	w, err := Open(absolute, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if made, err = w.initFiles(options); err != nil {
		return made, err
	}
	for _, agent := range options.Agents {
		paths, err := w.AddAgent(agent, "", options.Now)
		made = append(made, paths...)
		if err != nil {
			return made, err
		}
	}
	return made, nil
}

func (w *Workspace) initFiles(options InitOptions) (made []string, err error) {
	const layout = "2006-01-02T15:04:05.000000+00:00"
	m := marker{
		ProjectName: options.Project,
		CreatedAt:   options.Now.UTC().Format(layout), UpdatedAt: options.Now.UTC().Format(layout),
		SpecVersion: specVersion,
	}
	if m.ProjectName == "" {
		m.ProjectName = filepath.Base(w.dir)
	}
	if options.Repository != "" {
		m.RepoPath = &options.Repository
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if made, err = w.makeState(); err != nil {
		return made, err
	}
	paths, err := w.addFiles(".", []newFile{{markerName, append(data, '\n')}})
	return append(paths, made...), err
}

// makeState makes the folder of cursors, locks and what is on its way on this
// machine, and keeps git out of it whatever the repository around ignores.
func (w *Workspace) makeState() (made []string, err error) {
	if err := w.makeFolder(stateName); err != nil {
		return nil, err
	}
	if made, err = w.addFiles(stateName, []newFile{{".gitignore", []byte("*\n")}}); err != nil {
		return made, err
	}
	return made, w.makeFolder(outgoingName)
}

// MakeStateFolder makes a folder below state, and keeps git out of it: state is
// about this machine alone. The name is the folder's path below the workspace,
// such as state/turns. A folder that is there is left as it is.
func (w *Workspace) MakeStateFolder(name string) error {
	name = filepath.ToSlash(name)
	if path.Clean(name) != name || !strings.HasPrefix(name, stateName+"/") {
		return fmt.Errorf("making folder %s: it is not in state", name)
	}
	if info, err := w.root.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if _, err := w.makeState(); err != nil {
		return err
	}
	return w.makeFolder(name)
}

// A newFile is a file to be made where none is.
type newFile struct {
	name string
	data []byte
}

// addFiles makes the files that do not exist yet, and returns their paths.
func (w *Workspace) addFiles(folder string, files []newFile) (made []string, err error) {
	dir, err := durable.OpenDir(w.root, w.dir, folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	for _, file := range files {
		err := writeFile(w.files, dir, file.name, file.data)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return made, err
		}
		made = append(made, dir.Path(file.name))
	}
	return made, nil
}

// Runtimes are the programs that an agent may be.
var Runtimes = []string{"claude", "codex", "cursor", "gemini", "human"}

// AddAgent makes an agent's mailbox, or completes the one that is there, and,
// for a runtime, the card and status files of the reference implementation.
// What exists is never changed. It returns the paths that it made.
func (w *Workspace) AddAgent(agent schema.AgentName, runtime string, now time.Time) (made []string, err error) {
	if err := checkNewAgent(agent); err != nil {
		return nil, err
	}
	if runtime != "" && !slices.Contains(Runtimes, runtime) {
		return nil, fmt.Errorf("runtime %q is none of %s", runtime, strings.Join(Runtimes, ", "))
	}
	for _, box := range []Box{Inbox, Outbox, DeadLetters} {
		name := boxName(agent, box)
		if _, err := w.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			made = append(made, filepath.Join(w.dir, name))
		}
		if err := w.makeFolder(name); err != nil {
			return made, err
		}
		// git keeps no empty folders.
		if _, err := w.addFiles(name, []newFile{{".gitkeep", nil}}); err != nil {
			return made, err
		}
	}
	if runtime == "" {
		return made, nil
	}
	files, err := identityFiles(agent, runtime, now)
	if err != nil {
		return made, err
	}
	paths, err := w.addFiles(agentsName+"/"+string(agent), files)
	return append(made, paths...), err
}

// agentCard is agent_card.yaml, in the reference implementation's form.
type agentCard struct {
	Version     string `yaml:"version"`
	Name        string `yaml:"name"`
	Runtime     string `yaml:"runtime"`
	Description string `yaml:"description"`
	Protocol    struct {
		InboxPath  string        `yaml:"inbox_path"`
		OutboxPath string        `yaml:"outbox_path"`
		Types      []schema.Type `yaml:"supported_message_types"`
	} `yaml:"protocol"`
}

// agentStatus is status.yaml, in the reference implementation's form.
type agentStatus struct {
	Runtime      string   `yaml:"runtime"`
	Model        string   `yaml:"model"`
	Status       string   `yaml:"status"`
	CurrentTask  string   `yaml:"current_task"`
	Capabilities []string `yaml:"capabilities"`
	UpdatedAt    string   `yaml:"updated_at"`
}

func identityFiles(agent schema.AgentName, runtime string, now time.Time) ([]newFile, error) {
	card := agentCard{
		Version: "0.2.0", Name: string(agent), Runtime: runtime,
		Description: string(agent) + " (" + runtime + ")",
	}
	card.Protocol.InboxPath = boxName(agent, Inbox) + "/"
	card.Protocol.OutboxPath = boxName(agent, Outbox) + "/"
	card.Protocol.Types = schema.Types()
	status := agentStatus{
		Runtime: runtime, Model: "unknown", Status: "available", Capabilities: []string{},
		UpdatedAt: string(schema.NewTimestamp(now)),
	}
	cardData, err := yaml.Marshal(card)
	if err != nil {
		return nil, err
	}
	statusData, err := yaml.Marshal(status)
	return []newFile{{cardName, cardData}, {"status.yaml", statusData}}, err
}

// maxMarkerSize bounds what is read of workspace.json, in bytes.
const maxMarkerSize = 1 << 20

// Project returns the workspace's project name: the one in workspace.json, or
// else the name of its folder.
func (w *Workspace) Project() string {
	if m, err := w.readMarker(); err == nil && m.ProjectName != "" {
		return m.ProjectName
	}
	return filepath.Base(w.dir)
}

// readMarker reads workspace.json.
func (w *Workspace) readMarker() (m marker, err error) {
	dir, err := durable.OpenDir(w.root, w.dir, ".")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	data, err := dir.ReadFile(markerName, maxMarkerSize)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	return m, err
}
