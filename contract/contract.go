// Package contract checks the bodies of messages against the JSON Schemas of a workspace.
//
// The folder schemas of a workspace can contain a schema for the bodies of a message type,
// <type>.schema.json, and one for those of a channel, channel-<channel>.schema.json. Load reads them.
// A Checker asks the program oacp-contract, which links the schema library, whether bodies match.
// Package validate adds positions to the answers.
package contract

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Folder is the folder of a workspace that holds its schemas.
const Folder = "schemas"

// Suffix ends the name of a file that holds the schema for a type or a channel. What comes before it
// is the name of the schema.
const Suffix = ".schema.json"

const channelPrefix = "channel-"

// Limits of the folder, and of each file in it.
const (
	MaxFiles = 64
	MaxSize  = 1 << 20
)

// Names returns the sorted names of a workspace's schemas: <type> or channel-<channel>. It ignores
// other files in the folder. Root and dir are the workspace and its path; if root is nil, there are
// no schemas.
func Names(root *os.Root, dir string) (names []string, err error) {
	folder, err := openFolder(root, dir)
	if folder == nil || err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	files, err := folder.Names()
	return namesIn(files), err
}

// openFolder opens the folder of the schemas. It returns nil if there is none.
func openFolder(root *os.Root, dir string) (*durable.Dir, error) {
	if root == nil {
		return nil, nil
	}
	folder, err := durable.OpenDir(root, dir, Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return folder, err
}

// namesIn returns the names of the schemas among the files of the folder, sorted.
func namesIn(files []string) (names []string) {
	for _, file := range files {
		if name, ok := strings.CutSuffix(file, Suffix); ok && isName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func isName(name string) bool {
	if channel, ok := strings.CutPrefix(name, channelPrefix); ok {
		return isChannel(channel)
	}
	return slices.Contains(schema.Types(), schema.Type(name))
}

// isChannel reports whether a channel can have a schema, whose file name contains the channel.
func isChannel(channel string) bool {
	return schema.IsNamePart(channel) && !strings.Contains(channel, ".")
}

// namesFor returns the names of the schemas that a message has to fit, if the workspace has them.
func namesFor(m *schema.Message) []string {
	names := []string{string(m.Type)}
	if isChannel(m.Channel) {
		names = append(names, channelPrefix+m.Channel)
	}
	return names
}

// Schemas are schemas of one workspace, and the files that they can refer to.
type Schemas struct {
	// Names are the names of the schemas that can be applied, sorted.
	Names []string
	// Problems says what is wrong with the others, by name. The rule is always contract-schema.
	Problems map[string]validate.Diagnostics

	dir   string
	files map[string]string
}

// Load reads the wanted schemas of a workspace, all if wanted is nil, and every file that they can
// refer to. It follows no links and opens nothing outside the folder of the schemas.
func Load(root *os.Root, dir string, wanted func(name string) bool) (_ *Schemas, err error) {
	s := &Schemas{dir: dir, Problems: make(map[string]validate.Diagnostics), files: make(map[string]string)}
	folder, err := openFolder(root, dir)
	if folder == nil || err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	files, err := folder.Names()
	names := namesIn(files)
	if wanted != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !wanted(name) })
	}
	if err != nil || len(names) == 0 {
		return s, err
	}
	files = slices.DeleteFunc(files, func(file string) bool { return !strings.HasSuffix(file, ".json") })
	if len(files) > MaxFiles {
		return s, fmt.Errorf("%s: contains more than %d .json files", filepath.Join(dir, Folder), MaxFiles)
	}
	for _, file := range files {
		text, problem := read(folder, file)
		if problem == "" {
			s.files[file] = text
		} else if name := strings.TrimSuffix(file, Suffix); slices.Contains(names, name) {
			s.Problems[name] = validate.Diagnostics{s.problem(file, problem)}
		}
	}
	s.Names = slices.DeleteFunc(names, func(name string) bool { return s.Problems[name] != nil })
	return s, nil
}

// read returns the text of a file, or what is wrong with it.
func read(folder *durable.Dir, file string) (text, problem string) {
	data, err := folder.ReadFile(file, MaxSize)
	switch {
	case errors.Is(err, durable.ErrTooLarge):
		return "", fmt.Sprintf("a schema has at most %d bytes", MaxSize)
	case err != nil:
		return "", fmt.Sprintf("it cannot be read: %v", errors.Unwrap(err))
	case !utf8.Valid(data):
		return "", "the text is not UTF-8"
	}
	return strings.TrimPrefix(string(data), "\ufeff"), ""
}

func (s *Schemas) problem(file, message string) validate.Diagnostic {
	return validate.Diagnostic{
		File: filepath.Join(s.dir, Folder, file), Rule: validate.RuleContractSchema, Severity: validate.Error, Message: message,
	}
}

// Text returns the text of a schema that can be applied.
func (s *Schemas) Text(name string) string { return s.files[name+Suffix] }

// For returns the names of the schemas that a message has to fit.
func (s *Schemas) For(m *schema.Message) []string {
	return slices.DeleteFunc(namesFor(m), func(name string) bool { return !slices.Contains(s.Names, name) })
}

// Err returns a *SchemaError if a schema cannot be applied.
func (s *Schemas) Err() error {
	var all validate.Diagnostics
	for _, name := range slices.Sorted(maps.Keys(s.Problems)) {
		all = append(all, s.Problems[name]...)
	}
	if len(all) == 0 {
		return nil
	}
	return &SchemaError{all}
}

// A SchemaError reports that a schema of the workspace cannot be applied, so the bodies that it is for are
// not checked.
type SchemaError struct{ Diagnostics validate.Diagnostics }

func (e *SchemaError) Error() string {
	if more := len(e.Diagnostics) - 1; more > 0 {
		return fmt.Sprintf("%s (and %d more)", e.Diagnostics[0], more)
	}
	return e.Diagnostics[0].String()
}

func (e *SchemaError) Explain() (code, hint string) {
	return "bad_schema", "fix the schema: until then oacp sends no message that it applies to"
}
