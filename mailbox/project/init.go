// Package project finds and makes workspaces: which workspace a command means, which agents it has,
// and which of them is running.
package project

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
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Names in a workspace.
const (
	// MarkerName is the file that marks a folder as a workspace.
	MarkerName = "workspace.json"
	agentsName = "agents"
	ignoreName = "state/.gitignore"
)

// specVersion is the version of the protocol that a workspace declares.
const specVersion = "0.4.0"

// InitOptions describes a new workspace.
type InitOptions struct {
	// Project is the name in workspace.json; empty means the folder's name.
	Project string
	// Repository is the path of the repository that the workspace is for.
	Repository string
	// Agents are the agents that get mailboxes.
	Agents []schema.AgentName
	// Now is the time of creation.
	Now time.Time
}

// marker is the content of workspace.json, with the fields of the reference implementation.
type marker struct {
	ProjectName string  `json:"project_name"`
	RepoPath    *string `json:"repo_path"`
	CreatedAt   string  `json:"created_at"`
	UpdatedAt   string  `json:"updated_at"`
	SpecVersion string  `json:"spec_version"`
}

// Init makes a workspace in the folder or completes the one that is there. It changes no existing
// file, and returns the paths that it made.
func Init(dir string, options InitOptions) (made []string, err error) {
	for _, agent := range options.Agents {
		if err := mailbox.CheckNewAgent(agent); err != nil {
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
	w, err := mailbox.Open(absolute, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if made, err = WriteMarker(w, options); err != nil {
		return made, err
	}
	for _, agent := range options.Agents {
		paths, err := AddAgent(w, agent, "", options.Now)
		made = append(made, paths...)
		if err != nil {
			return made, err
		}
	}
	return made, nil
}

// WriteMarker writes workspace.json and makes the state folder, if they are missing. It returns the
// paths that it made.
func WriteMarker(w *mailbox.Workspace, options InitOptions) (made []string, err error) {
	const layout = "2006-01-02T15:04:05.000000+00:00"
	m := marker{
		ProjectName: options.Project,
		CreatedAt:   options.Now.UTC().Format(layout), UpdatedAt: options.Now.UTC().Format(layout),
		SpecVersion: specVersion,
	}
	if m.ProjectName == "" {
		m.ProjectName = filepath.Base(w.Dir())
	}
	if options.Repository != "" {
		m.RepoPath = &options.Repository
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	_, missing := w.Root().Lstat(ignoreName)
	if err := w.MakeStateFolder("state/outgoing"); err != nil {
		return nil, err
	}
	if missing != nil {
		made = append(made, filepath.Join(w.Dir(), ignoreName))
	}
	paths, err := addFiles(w, ".", newFile{MarkerName, append(data, '\n')})
	return append(paths, made...), err
}

// A newFile is a file to write unless it exists.
type newFile struct {
	name string
	data []byte
}

// addFiles writes the files that do not exist yet, and returns their paths.
func addFiles(w *mailbox.Workspace, folder string, files ...newFile) (made []string, err error) {
	for _, file := range files {
		name := path.Join(folder, file.name)
		added, err := w.AddFile(name, file.data)
		if err != nil {
			return made, err
		}
		if added {
			made = append(made, filepath.Join(w.Dir(), name))
		}
	}
	return made, nil
}

// Runtimes are the programs that an agent can run in.
var Runtimes = []string{"claude", "codex", "cursor", "gemini", "human"}

// AddAgent makes an agent's mailbox or completes the one that is there. With a runtime, which is
// one of Runtimes, it also writes the card and status files of the reference implementation. It
// changes no existing file, and returns the paths that it made.
func AddAgent(w *mailbox.Workspace, agent schema.AgentName, runtime string, now time.Time) (made []string, err error) {
	if err := mailbox.CheckNewAgent(agent); err != nil {
		return nil, err
	}
	if runtime != "" && !slices.Contains(Runtimes, runtime) {
		return nil, fmt.Errorf("runtime %q is not one of %s", runtime, strings.Join(Runtimes, ", "))
	}
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.DeadLetters} {
		name := mailbox.BoxName(agent, box)
		if _, err := w.Root().Lstat(name); errors.Is(err, fs.ErrNotExist) {
			made = append(made, filepath.Join(w.Dir(), name))
		}
		if err := w.MakeFolder(name); err != nil {
			return made, err
		}
		// git does not keep empty folders.
		if _, err := w.AddFile(name+"/.gitkeep", nil); err != nil {
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
	paths, err := addFiles(w, agentsName+"/"+string(agent), files...)
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
	card.Protocol.InboxPath = mailbox.BoxName(agent, mailbox.Inbox) + "/"
	card.Protocol.OutboxPath = mailbox.BoxName(agent, mailbox.Outbox) + "/"
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

// maxMarkerSize bounds the size of workspace.json, in bytes.
const maxMarkerSize = 1 << 20

// Name returns the workspace's project name: the one in workspace.json, or else the name of its
// folder.
func Name(w *mailbox.Workspace) string {
	if m, err := readMarker(w); err == nil && m.ProjectName != "" {
		return m.ProjectName
	}
	return filepath.Base(w.Dir())
}

// CheckMarker returns an error if workspace.json cannot be read.
func CheckMarker(w *mailbox.Workspace) error {
	_, err := readMarker(w)
	return err
}

func readMarker(w *mailbox.Workspace) (m marker, err error) {
	dir, err := durable.OpenDir(w.Root(), w.Dir(), ".")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	data, err := dir.ReadFile(MarkerName, maxMarkerSize)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	return m, err
}
