package settings

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

const (
	recordsName = "allowed"
	ownName     = "config.yaml"
	// maxShown bounds the settings of a file that can be allowed, in bytes: nobody reads more.
	maxShown = 4 << 10
)

// A Record says that the user has allowed the settings of a file. It binds the absolute path of the workspace without
// symbolic links, so the settings of a clone elsewhere are not allowed, and the settings, so a change is not either.
type Record struct {
	Workspace string    `json:"workspace"`
	File      string    `json:"file"`
	Hash      string    `json:"sha256,omitempty"`
	At        time.Time `json:"allowed_at,omitzero"`
}

// readPrivate returns the bytes of a file in the user's home, nil if there is no such file or home. It returns an error if
// others could have written it.
func readPrivate(home, name string) (path string, data []byte, err error) {
	path = filepath.Join(home, name)
	data, err = durable.ReadPath(path, maxFile)
	if home == "" || errors.Is(err, fs.ErrNotExist) {
		return path, nil, nil
	}
	return path, data, cmp.Or(err, checkPrivate(path), checkPrivate(home))
}

// checkPrivate returns an error if others can write a file or folder.
func checkPrivate(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o022 != 0 && runtime.GOOS != "windows" {
		err = fmt.Errorf("%s: others can write it, so it allows nothing: chmod go-w %[1]s", path)
	}
	return err
}

// readOwn returns the settings of an agent in the user's own file. Its agents may be those of any workspace.
func readOwn(w *mailbox.Workspace, agent schema.AgentName) ([]File, error) {
	home, err := w.Home()
	if err != nil {
		return nil, err
	}
	path, data, err := readPrivate(home, ownName)
	if err != nil || data == nil {
		return nil, err
	}
	known, listErr := w.Agents()
	all, content, err := parse(path, data, inOwn)
	one, agents := File{Path: path}, make(map[string]document)
	if node, ok := content["agents"]; ok && err == nil {
		err = node.Decode(&agents)
	}
	err = cmp.Or(err, listErr)
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		f, fileErr := agents[name].file(path, inOwnAgent)
		_, nameErr := schema.ParseAgentName(name)
		i := slices.IndexFunc(known, func(a schema.AgentName) bool { return strings.EqualFold(string(a), name) })
		if i >= 0 && name != string(known[i]) {
			nameErr = fmt.Errorf("the workspace has no such agent, but %s", known[i])
		}
		if wrong := cmp.Or(nameErr, fileErr); wrong != nil {
			err = cmp.Or(err, fmt.Errorf("agents, %q: %w", name, wrong))
		}
		if name == string(agent) {
			one = f
		}
	}
	all.Refused, one.Refused = nil, nil
	return []File{all, one}, inFile(path, err)
}

// Allowed returns what the user of a home has allowed, in all workspaces.
func Allowed(home string) (all []Record, err error) {
	path, data, err := readPrivate(home, recordsName)
	if err == nil && data != nil {
		if err = json.Unmarshal(data, &all); err != nil {
			err = fmt.Errorf("reading %s: %w", path, err)
		}
	}
	return all, err
}

// isAllowed reports whether the settings of the file are among the records, as they are, for this workspace.
func (f File) isAllowed(w *mailbox.Workspace, known []Record) bool {
	want, err := recordOf(w, f)
	return err == nil && f.CheckPrograms(w) == nil && slices.ContainsFunc(known, func(have Record) bool { return have.is(want) && have.Hash == want.Hash })
}

func (r Record) is(other Record) bool { return r.Workspace == other.Workspace && r.File == other.File }

// recordOf returns the record that allows the settings of a file.
func recordOf(w *mailbox.Workspace, f File) (Record, error) {
	dir, err := filepath.EvalSymlinks(w.Dir())
	hash := sha256.New()
	for _, s := range f.Refused {
		fmt.Fprintf(hash, "%s %s\n", s.Name, s.Value) // neither has a line break
	}
	return Record{Workspace: dir, File: f.Path, Hash: hex.EncodeToString(hash.Sum(nil))}, err
}

// Waiting returns the files of a workspace with settings that the user has not allowed, and all others with settings that
// need it. The settings are in Refused. It leaves out files that cannot be read, and returns their errors.
func Waiting(w *mailbox.Workspace) (waiting, allowed []File, err error) {
	agents, err := w.Agents()
	if err != nil {
		return nil, nil, err
	}
	home, err := w.Home()
	if err != nil {
		return nil, nil, err
	}
	known, err := Allowed(home)
	if err != nil {
		return nil, nil, err
	}
	take := func(f File, loadErr error) {
		err = errors.Join(err, loadErr)
		switch {
		case loadErr != nil || len(f.Refused) == 0:
		case f.isAllowed(w, known):
			allowed = append(allowed, f)
		default:
			waiting = append(waiting, f)
		}
	}
	take(readShared(w))
	for _, agent := range agents {
		data, err := trust.ReadConfig(w, agent)
		take(load(w, project.ConfigPath(agent), data, err))
	}
	return waiting, allowed, err
}

// Allow records that the user allows the settings of a file that Waiting has returned, as they were then.
func Allow(w *mailbox.Workspace, f File, now time.Time) error {
	shown := 0
	for _, s := range f.Refused {
		shown += len(s.Value)
	}
	if shown > maxShown {
		return fmt.Errorf("%s: its settings are longer than the %d bytes that can be allowed: put a script into the user's own files", f.Path, maxShown)
	}
	record, err := recordOf(w, f)
	home, homeErr := w.Home()
	if err := cmp.Or(f.CheckPrograms(w), err, homeErr); err != nil {
		return err
	}
	record.At = now.UTC().Truncate(time.Second)
	_, err = change(home, func(all []Record) []Record {
		return append(slices.DeleteFunc(all, record.is), record)
	})
	return err
}

// CheckPrograms returns an error if others can change what the settings start, because it is a file of the workspace or is found
// from the working folder: a record binds the words of the settings, not the files that they name.
func (f File) CheckPrograms(w *mailbox.Workspace) error {
	for _, s := range f.Refused {
		words := []string{s.Text()}
		if slices.Contains(lists, s.Name) {
			words = nil
			if err := json.Unmarshal([]byte(s.Value), &words); err != nil {
				return err
			}
		}
		for i, word := range words {
			isProgram := s.Kind == Program && i == 0
			if why := changeable(w, word, isProgram); why != "" {
				return failure.New("changeable_program", fmt.Sprintf("%s: %s: %s %s, so others can change what it does", f.Path, s.Name, word, why),
					"name a program on the PATH or by an absolute path, outside the workspace; flags and $OACP_HOME/config.yaml need no allowing")
			}
		}
	}
	return nil
}

// changeable says why others can change the file that a word names, or returns an empty text.
func changeable(w *mailbox.Workspace, word string, isProgram bool) string {
	path := word
	if isProgram && filepath.Base(word) == word {
		if found, err := exec.LookPath(word); err == nil {
			path = found
		}
	} else if isProgram && !filepath.IsAbs(word) {
		return "is a relative path"
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.Dir(), path)
	}
	real, err := filepath.EvalSymlinks(path)
	dir, dirErr := filepath.EvalSymlinks(w.Dir())
	if cmp.Or(err, dirErr) != nil { // it is no file, or starts nothing
		real, dir = path, w.Dir()
	}
	info, err := os.Stat(real)
	isFile := err == nil && !info.IsDir()
	switch inside := strings.HasPrefix(real, dir+string(filepath.Separator)); {
	case inside && (isFile || isProgram && filepath.IsAbs(word)):
		return "is in the workspace"
	case isProgram && isFile && checkPrivate(real) != nil:
		return "is a file that others can write"
	}
	return ""
}

// Revoke withdraws what the user has allowed in the workspace of a folder, which need not exist any more. It returns the
// withdrawn records.
func Revoke(home, dir string) (gone []Record, err error) {
	dir, err = filepath.Abs(dir)
	if real, linkErr := filepath.EvalSymlinks(dir); linkErr == nil {
		dir = real
	}
	if err != nil {
		return nil, err
	}
	return change(home, func(all []Record) []Record {
		return slices.DeleteFunc(all, func(r Record) bool { return r.Workspace == dir })
	})
}

// change replaces the records, and returns those that are gone.
func change(home string, edit func([]Record) []Record) (gone []Record, err error) {
	if err := cmp.Or(os.MkdirAll(home, 0o700), checkPrivate(home)); err != nil {
		return nil, err
	}
	path := filepath.Join(home, recordsName)
	lock := durable.NewLock(path + ".lock")
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	before, err := Allowed(home)
	if err != nil {
		return nil, err
	}
	after := edit(slices.Clone(before))
	data, err := json.MarshalIndent(after, "", "  ")
	if err != nil {
		return nil, err
	}
	for _, r := range before {
		if !slices.Contains(after, r) {
			gone = append(gone, r)
		}
	}
	return gone, durable.Replace(path, append(data, '\n'), 0o600)
}
