// Package settings reads the settings of agents and decides which of them count. Strangers and agents write the files of a
// workspace, so a setting there that names a program, its arguments, its environment or a wider permission counts only
// after the user has allowed it: see Allow. The user's own file needs no allowing.
//
//	workspace.json              the section run, for all agents
//	agents/<name>/config.yaml   the sections run and autonomy, and notify, for one agent; it wins over workspace.json
//	$OACP_HOME/config.yaml      the user's own: run for all agents, agents.<name>.run and .notify for one; it wins over both
//	$OACP_HOME/allowed          what the user has allowed
//
// Every reader of such a file uses this package, so none can forget to ask.
package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// A Kind says what a setting could do to the user. Settings of all kinds but Plain need to be allowed.
type Kind string

// The kinds.
const (
	// Plain settings say how mail is handled, and start and permit nothing.
	Plain Kind = "plain"
	// Program settings name a program, or where one listens.
	Program Kind = "program"
	// Arguments are passed to a program.
	Arguments Kind = "arguments"
	// Environment settings are variables of a program.
	Environment Kind = "environment"
	// Permission settings say what a program may do, and where.
	Permission Kind = "permission"
)

// A Key is a setting that files can have.
type Key struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
}

// section is the section of the settings for turns; the other keys stand beside it.
const section = "run"

// Keys are all settings. A file with another one in the section run is an error, so a setting without a kind cannot be read.
var Keys = []Key{
	{"notify", Program}, {"carrier", Program},
	{"run.driver", Program}, {"run.command", Program}, {"run.socket", Program},
	{"run.model", Arguments}, {"run.args", Arguments}, {"run.env", Environment}, {"run.clean_env", Environment},
	{"run.allow", Permission}, {"run.dir", Permission},
	{"run.input", Plain}, {"run.reply", Plain}, {"run.autonomy", Plain}, {"run.allow_from", Plain},
	{"run.max_attempts", Plain}, {"run.max_turns", Plain}, {"run.max_pair_turns", Plain}, {"run.max_hops", Plain},
	{"run.steer", Plain}, {"run.parallel", Plain}, {"run.claim", Plain}, {"run.lease", Plain}, {"run.timeout", Plain}, {"run.grace", Plain},
}

// lists are the settings that are lists of words.
var lists = []string{"notify", "run.command", "run.args", "run.env"}

// A Setting is one that a file of a workspace has and that needs to be allowed.
type Setting struct {
	Key
	// Value is the setting on one line, as JSON.
	Value string `json:"value"`
}

// Text returns a setting of one word.
func (s Setting) Text() string { return strings.Trim(s.Value, `"`) }

// A NotAllowedError reports settings that do not count because the user has not allowed them.
type NotAllowedError struct {
	// File is a file that has some, relative to the workspace, and Names are the names of all.
	File  string
	Names []string
}

func (e *NotAllowedError) Error() string {
	verb := "is"
	if len(e.Names) > 1 {
		verb = "are"
	}
	return fmt.Sprintf("%s: %s %s not allowed yet (see oacp allow)", e.File, spelling.Join(e.Names), verb)
}

func (e *NotAllowedError) Explain() (code, hint string) {
	return "not_allowed", "oacp allow shows what would run and asks; flags, and the user's own config.yaml in $OACP_HOME, need no allowing"
}

// NewNotAllowedError returns the error about the refused settings of a file.
func NewNotAllowedError(f File) *NotAllowedError {
	e := &NotAllowedError{File: f.Path}
	for _, s := range f.Refused {
		e.Names = append(e.Names, s.Name)
	}
	return e
}

// A File has the settings of a file that count. Fields are nil if the file does not have them.
type File struct {
	// Path is relative to the workspace, or absolute for the user's own file.
	Path string
	// Run is the section run, a mapping, without the settings that do not count.
	Run, Notify, Autonomy *yaml.Node
	// plain is the section run without settings that need to be allowed.
	plain *yaml.Node
	// Refused are settings of a workspace that do not count because the user has not allowed them.
	Refused []Setting
	// Unsigned reports that nothing in workspace.json counts for an agent whose settings are signed, because the
	// signature does not cover it.
	Unsigned bool
}

// maxFile is the size of the largest file with settings, in bytes.
const maxFile = 1 << 20

// A document has the keys of a file, or of one agent in the user's own file.
type document map[string]yaml.Node

// The keys that count, by the place where they stand.
var (
	inShared   = []string{section, "carrier", "autonomy"}
	inConfig   = []string{section, "notify", "autonomy"}
	inOwn      = []string{section, "agents"}
	inOwnAgent = []string{section, "notify"}
)

// Read returns the files with settings of an agent, the one that wins last. Errors name the file.
func Read(w *mailbox.Workspace, agent schema.AgentName) (files []File, err error) {
	if err := w.CheckAgent(agent); err != nil {
		return nil, err
	}
	home, err := w.Home()
	if err != nil {
		return nil, err
	}
	known, _ := Allowed(home) // what cannot be read allows nothing; Allow says why
	config, configErr := trust.ReadConfig(w, agent)
	shared, err := readShared(w)
	if err != nil {
		return nil, err
	}
	one, err := load(w, project.ConfigPath(agent), config, configErr)
	if err != nil {
		return nil, err
	}
	if _, auth, _ := signing.Split(config); auth != "" {
		shared = File{Path: shared.Path, Unsigned: shared.Run != nil}
	}
	for _, f := range []File{shared, one} {
		if f.isAllowed(w, known) {
			f.Refused = nil
		} else if len(f.Refused) > 0 {
			f.Run, f.Notify = f.plain, nil
		}
		files = append(files, f)
	}
	own, err := readOwn(w, agent)
	return append(files, own...), err
}

// readShared reads workspace.json.
func readShared(w *mailbox.Workspace) (File, error) {
	data, err := durable.ReadFile(w.Root(), w.Dir(), schema.MarkerName, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return load(w, schema.MarkerName, data, err)
}

// load returns the file of a workspace with the data, unless reading it has failed. Refused has all settings that need to
// be allowed.
func load(w *mailbox.Workspace, path string, data []byte, err error) (f File, _ error) {
	known := inConfig
	if path == schema.MarkerName { // notify is a setting of one person
		known = inShared
	}
	if err == nil {
		f, _, err = parse(path, data, known)
	}
	return f, inFile(filepath.Join(w.Dir(), path), err)
}

// inFile adds the file to an error.
func inFile(path string, err error) error {
	if err != nil {
		err = fmt.Errorf("settings for turns in %s: %w", path, err)
	}
	return err
}

// parse parses a file with settings, which is one document of YAML. It also accepts JSON, which is YAML.
func parse(path string, data []byte, known []string) (f File, content document, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&content); err != nil && err != io.EOF { // an empty file has no settings
		return f, nil, err
	}
	var more yaml.Node
	if err := decoder.Decode(&more); err != io.EOF {
		return f, nil, cmp.Or(err, fmt.Errorf("line %d: a second document has no effect", more.Line))
	}
	f, err = content.file(path, known)
	return f, content, err
}

// file returns the settings of a document in which the known keys count. A setting in another place is an error, so that
// nobody believes it counts. Other programs have keys of their own in the files of a workspace, but not in the user's own.
func (d document) file(path string, known []string) (f File, err error) {
	for _, name := range slices.Sorted(maps.Keys(d)) {
		node := d[name]
		is := func(setting string) bool { return strings.EqualFold(name, setting) }
		switch {
		case slices.Contains(known, name):
		case slices.ContainsFunc(RunNames(), is):
			return f, fmt.Errorf("line %d: %s has no effect here: it belongs in the section run, as run: {%s: %.40s}", node.Line, name, strings.ToLower(name), cmp.Or(node.Value, "..."))
		case filepath.IsAbs(path), slices.ContainsFunc(slices.Concat(inShared, inConfig), is):
			return f, fmt.Errorf("line %d: %.40q has no effect here; what counts here is %s", node.Line, name, spelling.Join(known))
		}
	}
	run, notify, carrier, autonomy := d[section], d["notify"], d["carrier"], d["autonomy"]
	f = File{Path: path, Notify: present(&notify), Autonomy: present(&autonomy)}
	return f, cmp.Or(f.add("carrier", present(&carrier)), f.add("notify", f.Notify), f.addSection(present(&run)))
}

// addSection adds the section run.
func (f *File) addSection(run *yaml.Node) error {
	if run == nil {
		return nil
	}
	if run.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: run is not a mapping", run.Line)
	}
	plain := *run
	f.Run, f.plain, plain.Content = run, &plain, nil
	for i := 0; i < len(run.Content); i += 2 {
		name, value := run.Content[i], run.Content[i+1]
		if name.Kind != yaml.ScalarNode || !slices.ContainsFunc(Keys, func(k Key) bool { return k.Name == section+"."+name.Value }) {
			return fmt.Errorf("line %d: run has no setting %.40q; it has %s", name.Line, name.Value, strings.Join(RunNames(), ", "))
		}
		refused := len(f.Refused)
		if err := f.add(section+"."+name.Value, value); err != nil {
			return err
		}
		if len(f.Refused) == refused {
			plain.Content = append(plain.Content, name, value)
		}
	}
	return nil
}

// RunNames returns the names of the settings in the section run.
func RunNames() (names []string) {
	for _, k := range Keys {
		if name, ok := strings.CutPrefix(k.Name, section+"."); ok {
			names = append(names, name)
		}
	}
	return names
}

// present returns the node unless it is missing or null.
func present(node *yaml.Node) *yaml.Node {
	if node.IsZero() || node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		return nil
	}
	return node
}

// add appends a setting to Refused if it is of a kind that needs to be allowed. What is allowed must be what is read, so
// such a setting has no references to other parts of the file.
func (f *File) add(name string, node *yaml.Node) error {
	key := Keys[slices.IndexFunc(Keys, func(k Key) bool { return k.Name == name })]
	if node == nil || key.Kind == Plain {
		return nil
	}
	var value any = node.Value
	words, isList := []string{}, slices.Contains(lists, name)
	ok := isList == (node.Kind == yaml.SequenceNode) && (name != "notify" || len(node.Content) > 0)
	for _, item := range slices.Concat(node.Content, []*yaml.Node{node}) {
		if item != node || !isList {
			ok = ok && item.Kind == yaml.ScalarNode && item.ShortTag() != "!!binary" && item.ShortTag() != "!!null"
			words = append(words, item.Value)
		}
	}
	if isList {
		value = words
	}
	if !ok && isList {
		return fmt.Errorf("line %d: %s is a list of words, such as [sh, -c, %.40q]", node.Line, strings.TrimPrefix(name, section+"."), node.Value)
	} else if !ok {
		return fmt.Errorf("line %d: %s is a text", node.Line, strings.TrimPrefix(name, section+"."))
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	f.Refused = append(f.Refused, Setting{key, strings.TrimSpace(text.String())})
	return err
}
