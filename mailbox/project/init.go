// Package project finds and creates workspaces and their agents. It determines which workspace and
// agent a command uses, and what agents may do without asking.
package project

import (
	"cmp"
	"crypto/rand"
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

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Names in a workspace.
const (
	ignoreName = "state/.gitignore"
	// attributesName is the file that says how git treats the files of agents, if they are committed. Git prefers it to the
	// .gitattributes of its user, which init leaves alone.
	attributesName = schema.AgentsName + "/.gitattributes"
	keepName       = ".gitkeep"
)

// maxFileSize bounds the size of the files that describe a workspace and its agents, in bytes.
const maxFileSize = 1 << 20

// specVersion is the version of the protocol that a workspace declares.
const specVersion = "0.5.1"

// InitOptions describes a new workspace.
type InitOptions struct {
	// Project is the name in workspace.json; empty means the folder's name.
	Project string
	// Agents are the agents that get mailboxes. With AgentsIfNew, they get them only in a new workspace.
	Agents      []schema.AgentName
	AgentsIfNew bool
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
	// WorkspaceID stays when the folder is renamed. Signed settings are for it.
	WorkspaceID string `json:"workspace_id"`
}

// Init makes a workspace in the folder, or completes an existing one. It changes no existing file.
// It returns the absolute paths of the files and folders that were missing.
func Init(dir string, options InitOptions) (made []string, err error) {
	for i, agent := range options.Agents {
		others := options.Agents[:i]
		if agent.Valid() {
			if _, err := os.Lstat(filepath.Join(dir, schema.AgentPath(agent, ""))); err == nil {
				others = append(slices.Clone(others), agent) // it exists
			}
		}
		if err := mailbox.CheckNewName(agent, others); err != nil {
			return nil, err
		}
	}
	absolute, err := filepath.Abs(dir)
	if err == nil {
		err = durable.MakeDirs(filepath.Join(absolute, schema.AgentsName))
	}
	if err != nil {
		return nil, fmt.Errorf("creating workspace %s: %w", dir, err)
	}
	w, err := mailbox.Open(absolute, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	known, err := w.Agents()
	if err != nil {
		return nil, err
	}
	_, noMarker := w.Root().Lstat(schema.MarkerName)
	if options.AgentsIfNew && (len(known) > 0 || noMarker == nil) {
		options.Agents = nil
	}
	for _, agent := range options.Agents {
		if err := mailbox.CheckNewName(agent, known); err != nil {
			return nil, err
		}
	}
	if made, err = addWorkspaceFiles(w, options); err != nil {
		return made, err
	}
	for _, agent := range options.Agents {
		added, err := AddAgent(w, agent, AgentOptions{Now: options.Now})
		made = append(made, added...)
		if err == nil && options.AgentsIfNew {
			err = noteUnasked(w, agent)
		}
		if err != nil {
			return made, err
		}
	}
	return made, nil
}

// addWorkspaceFiles writes workspace.json and the attributes for git, and makes the state folder, if they are missing.
// It returns the paths that it made.
func addWorkspaceFiles(w *mailbox.Workspace, options InitOptions) (made []string, err error) {
	const layout = "2006-01-02T15:04:05.000000+00:00"
	now := options.Now.UTC().Format(layout)
	m := marker{
		ProjectName: cmp.Or(options.Project, filepath.Base(w.Dir())),
		CreatedAt:   now, UpdatedAt: now, SpecVersion: specVersion, WorkspaceID: rand.Text(),
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	_, missing := w.Root().Lstat(ignoreName)
	if err := w.MakeStateFolder("state/outgoing"); err != nil {
		return nil, err
	}
	made, err = addFiles(w, ".", newFile{schema.MarkerName, append(data, '\n')})
	attributes, attributesErr := AddAttributes(w)
	made, err = append(made, attributes...), cmp.Or(err, attributesErr)
	if missing != nil {
		made = append(made, filepath.Join(w.Dir(), ignoreName))
	}
	return made, err
}

// AddAttributes writes the file that keeps git from changing the files of agents, if it is missing, and returns its path.
func AddAttributes(w *mailbox.Workspace) (made []string, err error) {
	return addFiles(w, ".", newFile{attributesName, []byte(attributesTemplate)})
}

// A newFile is a file to write unless it exists.
type newFile struct {
	name string
	data []byte
}

// addFiles writes the files that do not exist yet into a folder, and returns their paths.
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

// AgentOptions describes a new agent.
type AgentOptions struct {
	// Runtime is one of Runtimes, or empty.
	Runtime string
	// Now is the time of creation.
	Now time.Time
}

// AddAgent makes an agent's mailbox, or completes an existing one. With a runtime, it also
// writes the card and status files of the reference implementation. It changes no existing file. It returns
// the absolute paths of the files and folders that were missing.
func AddAgent(w *mailbox.Workspace, agent schema.AgentName, options AgentOptions) (made []string, err error) {
	known, err := w.Agents()
	if err != nil {
		return nil, err
	}
	if err := mailbox.CheckNewName(agent, known); err != nil {
		return nil, err
	}
	if options.Runtime != "" && !slices.Contains(Runtimes, options.Runtime) {
		return nil, fmt.Errorf("runtime %q is not one of %s", options.Runtime, strings.Join(Runtimes, ", "))
	}
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.DeadLetters} {
		name := schema.BoxPath(agent, box)
		if _, err := w.Root().Lstat(name); errors.Is(err, fs.ErrNotExist) {
			made = append(made, filepath.Join(w.Dir(), name))
		}
		if err := w.MakeFolder(name); err != nil {
			return made, err
		}
		// git does not keep empty folders.
		if _, err := w.AddFile(name+"/"+keepName, nil); err != nil {
			return made, err
		}
	}
	if err := mailbox.BeginIncarnation(w, agent); err != nil {
		return made, err
	}
	if err := removeUnasked(w, agent); err != nil || options.Runtime == "" {
		return made, err
	}
	added, err := addFiles(w, schema.AgentsName+"/"+string(agent), newFiles(agent, options.Runtime, options.Now)...)
	return append(made, added...), err
}

// noteUnasked records that Init made an agent by default.
func noteUnasked(w *mailbox.Workspace, agent schema.AgentName) error {
	err := w.MakeStateFolder(mailbox.UnaskedFolder)
	if err == nil {
		_, err = w.AddFile(mailbox.UnaskedFolder+"/"+string(agent), nil)
	}
	return err
}

// removeUnasked removes that record.
func removeUnasked(w *mailbox.Workspace, agent schema.AgentName) error {
	dir, err := durable.OpenDir(w.Root(), w.Dir(), mailbox.UnaskedFolder)
	if err == nil {
		err = errors.Join(dir.Remove(string(agent)), dir.Sync(), dir.Close())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Name returns the workspace's project name: the one in workspace.json, or else the name of its
// folder.
func Name(w *mailbox.Workspace) string {
	if m, err := readMarker(w.Root(), w.Dir()); err == nil && m.ProjectName != "" {
		return m.ProjectName
	}
	return filepath.Base(w.Dir())
}

// CheckMarker returns an error if workspace.json cannot be read.
func CheckMarker(w *mailbox.Workspace) error {
	_, err := readMarker(w.Root(), w.Dir())
	return err
}

func readMarker(root *os.Root, dir string) (m marker, err error) {
	data, err := durable.ReadFile(root, dir, schema.MarkerName, maxFileSize)
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	return m, err
}
