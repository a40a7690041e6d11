// Package project finds and creates workspaces and their agents. It determines which workspace and
// agent a command uses, and what agents may do without asking.
package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Names in a workspace.
const (
	ignoreName = "state/.gitignore"
	// attributesName says how git treats the files of the workspace, if they are committed.
	attributesName = ".gitattributes"
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
	// ProjectFolders makes the folders and files of a project of the reference implementation besides those
	// that messages need. A workspace that has them already is completed in any case.
	ProjectFolders bool
	// Repository is the path of the repository that the workspace is for.
	Repository string
	// Links are made in the folder artifacts.
	Links []Link
	// Agents are the agents that get mailboxes; with AgentsIfNew, they do only in a workspace that is new.
	Agents      []schema.AgentName
	AgentsIfNew bool
	// Now is the time of creation.
	Now time.Time
}

// Made is what Init or AddAgent did.
type Made struct {
	// Paths are the files and folders that were missing, absolute.
	Paths []string
	// Warnings describe failures that do not matter much.
	Warnings []string
}

func (m *Made) add(other Made) {
	m.Paths = append(m.Paths, other.Paths...)
	m.Warnings = append(m.Warnings, other.Warnings...)
}

// marker is the content of workspace.json, with the fields of the reference implementation.
type marker struct {
	ProjectName string  `json:"project_name"`
	RepoPath    *string `json:"repo_path"`
	CreatedAt   string  `json:"created_at"`
	UpdatedAt   string  `json:"updated_at"`
	SpecVersion string  `json:"spec_version"`
}

func markerTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000+00:00") }

// Init makes a workspace in the folder or completes the one that is there. It changes no existing file,
// with two exceptions: it notes another repository in workspace.json, and replaces links.
func Init(dir string, options InitOptions) (made Made, err error) {
	for i, agent := range options.Agents {
		if err := mailbox.CheckNewAgent(agent, options.Agents[:i]); err != nil {
			return made, err
		}
	}
	for _, link := range options.Links {
		if err := link.check(); err != nil {
			return made, err
		}
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return made, fmt.Errorf("creating workspace %s: %w", dir, err)
	}
	if err := durable.MakeDirs(filepath.Join(absolute, schema.AgentsName)); err != nil {
		return made, fmt.Errorf("creating workspace %s: %w", dir, err)
	}
	w, err := mailbox.Open(absolute, nil)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	known, err := w.Agents()
	if err != nil {
		return made, err
	}
	_, noMarker := w.Root().Lstat(schema.MarkerName)
	if options.AgentsIfNew && (len(known) > 0 || noMarker == nil) {
		options.Agents = nil
	}
	for _, agent := range options.Agents {
		if err := mailbox.CheckNewAgent(agent, known); err != nil {
			return made, err
		}
	}
	if made.Paths, err = WriteMarker(w, options); err != nil {
		return made, err
	}
	paths, err := WriteAttributes(w)
	if made.Paths = append(made.Paths, paths...); err != nil {
		return made, err
	}
	if options.ProjectFolders = options.ProjectFolders || HasProjectFolders(w); options.ProjectFolders {
		paths, err := addProjectFolders(w, options.Now)
		made.Paths = append(made.Paths, paths...)
		if err != nil {
			return made, err
		}
	}
	for _, agent := range options.Agents {
		added, err := AddAgent(w, agent, AgentOptions{ProjectFolders: options.ProjectFolders, Now: options.Now})
		made.add(added)
		if err == nil && options.AgentsIfNew {
			err = noteUnasked(w, agent)
		}
		if err != nil {
			return made, err
		}
	}
	linked, err := addLinks(w, options.Repository, options.Links)
	made.add(linked)
	return made, err
}

// noteUnasked notes that nobody has asked for an agent.
func noteUnasked(w *mailbox.Workspace, agent schema.AgentName) error {
	err := w.MakeStateFolder(mailbox.UnaskedFolder)
	if err == nil {
		_, err = w.AddFile(mailbox.UnaskedFolder+"/"+string(agent), nil)
	}
	return err
}

// WriteMarker writes workspace.json and makes the state folder, if they are missing. If
// workspace.json names another repository than the options, WriteMarker changes that. It returns
// the paths that it made.
func WriteMarker(w *mailbox.Workspace, options InitOptions) (made []string, err error) {
	m := marker{
		ProjectName: options.Project,
		CreatedAt:   markerTime(options.Now), UpdatedAt: markerTime(options.Now),
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
	paths, err := addFiles(w, ".", newFile{schema.MarkerName, append(data, '\n')})
	if err == nil && len(paths) == 0 && options.Repository != "" {
		err = setRepository(w, options.Repository, options.Now)
	}
	return append(paths, made...), err
}

// setRepository notes the repository in an existing workspace.json and keeps everything else.
func setRepository(w *mailbox.Workspace, repository string, now time.Time) error {
	data, err := readMarkerFile(w)
	if err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err = json.Unmarshal(data, &fields); err == nil && fields == nil {
		err = errors.New("it is null, not a JSON object")
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Join(w.Dir(), schema.MarkerName), err)
	}
	path, err := json.Marshal(repository)
	if err != nil || string(fields["repo_path"]) == string(path) {
		return err
	}
	fields["repo_path"] = path
	if fields["updated_at"], err = json.Marshal(markerTime(now)); err != nil {
		return err
	}
	if data, err = json.MarshalIndent(fields, "", "  "); err != nil {
		return err
	}
	return durable.ReplaceFile(w.Root(), w.Dir(), schema.MarkerName, append(data, '\n'), 0o644)
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

// WriteAttributes writes the file that says how git treats the messages, unless it exists, and returns
// its path if it is new.
func WriteAttributes(w *mailbox.Workspace) ([]string, error) {
	return addFiles(w, ".", newFile{attributesName, []byte(attributesTemplate)})
}

// addFolders makes the folders that are missing, and returns their paths. With keep, git keeps them
// although they are empty.
func addFolders(w *mailbox.Workspace, keep bool, names ...string) (made []string, err error) {
	for _, name := range names {
		if _, err := w.Root().Lstat(name); errors.Is(err, fs.ErrNotExist) {
			made = append(made, filepath.Join(w.Dir(), name))
		}
		if err := w.MakeFolder(name); err != nil {
			return made, err
		}
		if keep {
			if _, err := w.AddFile(name+"/"+keepName, nil); err != nil {
				return made, err
			}
		}
	}
	return made, nil
}

// AgentOptions describes a new agent.
type AgentOptions struct {
	// Runtime is one of Runtimes, or empty.
	Runtime string
	// Home is the folder of projects. The file agents/<name>/profile.yaml in it, if there is one,
	// says the agent's model and description.
	Home string
	// ProjectFolders makes what an agent has in a project of the reference implementation, besides the
	// mailbox: the folder of its decisions and its config.yaml.
	ProjectFolders bool
	// Now is the time of creation.
	Now time.Time
}

// AddAgent makes an agent's mailbox or completes the one that is there. With a runtime, it also
// writes the card and status files of the reference implementation. It changes no existing file.
func AddAgent(w *mailbox.Workspace, agent schema.AgentName, options AgentOptions) (made Made, err error) {
	known, err := w.Agents()
	if err != nil {
		return made, err
	}
	if err := mailbox.CheckNewAgent(agent, known); err != nil {
		return made, err
	}
	if err := checkRuntime(options.Runtime); err != nil {
		return made, err
	}
	folder := schema.AgentsName + "/" + string(agent)
	folders := []string{schema.BoxPath(agent, mailbox.Inbox), schema.BoxPath(agent, mailbox.Outbox), schema.BoxPath(agent, mailbox.DeadLetters)}
	var files []newFile
	if options.ProjectFolders || HasProjectFolders(w) {
		folders = append(folders, DecisionsName(agent))
		files = append(files, newFile{ConfigName, []byte(configTemplate)})
	}
	if made.Paths, err = addFolders(w, true, folders...); err != nil {
		return made, err
	}
	if err := removeUnasked(w, agent); err != nil {
		return made, err
	}
	if options.Runtime != "" {
		profile, err := readProfile(options.Home, agent)
		if err != nil {
			made.Warnings = append(made.Warnings, spelling.PlainYAML(err.Error()))
		}
		files = append(files, profile.files(agent, options.Runtime, options.Now)...)
	}
	paths, err := addFiles(w, folder, files...)
	made.Paths = append(made.Paths, paths...)
	return made, err
}

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
	return unmarshalMarker(readMarkerFile(w))
}

func unmarshalMarker(data []byte, err error) (m marker, _ error) {
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	return m, err
}

func readMarkerFile(w *mailbox.Workspace) ([]byte, error) {
	return durable.ReadFile(w.Root(), w.Dir(), schema.MarkerName, maxFileSize)
}

// removeUnasked forgets that init made an agent without being asked for it.
func removeUnasked(w *mailbox.Workspace, agent schema.AgentName) error {
	dir, err := durable.OpenDir(w.Root(), w.Dir(), mailbox.UnaskedFolder)
	if err == nil {
		err = errors.Join(dir.Remove(string(agent)), dir.Close())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
