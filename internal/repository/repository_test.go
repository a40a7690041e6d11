// Package repository contains only tests. They check rules for the repository as a whole.
package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/oacp-go/oacp/"
)

// imports lists which packages of this module each package may import. Imports point one way, so
// each package can be used and understood without those that import it.
var imports = map[string][]string{
	"schema":   {},
	"signing":  {"schema"},
	"validate": {"schema", "signing"},
	"mailbox":  {"schema", "signing", "validate"},
	"contract": {"schema", "validate"},

	"mailbox/conversation": {"schema", "mailbox"},

	"mailbox/project":  {"schema", "mailbox"},
	"mailbox/settings": {"schema", "signing", "mailbox", "mailbox/project", "mailbox/trust", "internal/durable", "internal/spelling"},
	"mailbox/watch":    {"schema", "mailbox", "mailbox/project"},
	"mailbox/trust":    {"schema", "signing", "validate", "mailbox"},
	"mailbox/doctor":   {"schema", "contract", "mailbox", "mailbox/project", "mailbox/settings", "mailbox/trust", "mailbox/commit", "mailbox/gitmail"},
	"mailbox/history":  {"schema"},
	"mailbox/commit":   {"schema", "mailbox", "mailbox/history"},
	"mailbox/gitmail":  {"schema", "validate", "mailbox", "mailbox/project", "mailbox/replica", "mailbox/history"},
	"mailbox/replica":  {"schema", "validate", "mailbox"},
	"validate/change":  {"schema", "validate"},

	"convert/mirror": {"schema", "validate", "mailbox", "mailbox/project", "mailbox/watch", "bridge", "convert"},

	"bridge":  {},
	"convert": {"schema", "validate", "bridge"},
	"ash":     {},
	"agent":   {"ash"},
	"turn":    {"schema", "validate", "client", "mailbox", "mailbox/conversation", "mailbox/project", "mailbox/settings", "mailbox/watch", "mailbox/gitmail", "agent", "turn/track", "mailbox/trust"},
	"pair":    {"schema", "bridge", "agent"},
	"client":  {"schema", "validate", "contract", "mailbox", "mailbox/conversation", "mailbox/project", "mailbox/trust", "mailbox/watch", "mailbox/gitmail", "turn/track"},
	"live":    {"schema", "signing", "mailbox", "mailbox/project", "mailbox/trust", "mailbox/watch", "turn/track"},

	"search": {"schema", "validate", "mailbox", "mailbox/conversation", "bridge", "turn/track"},

	"turn/notify": {"schema", "mailbox", "mailbox/project", "mailbox/watch", "agent", "turn"},

	"turn/track": {"schema", "validate", "mailbox", "mailbox/conversation", "mailbox/project", "mailbox/watch"},
	"live/setup": {"schema", "mailbox", "mailbox/doctor", "live"},

	"internal/inspection": {"agent", "schema", "mailbox", "mailbox/doctor", "mailbox/project", "mailbox/settings", "turn", "turn/notify", "live/setup"},

	"internal/durable":   {"internal/process"},
	"internal/exclusive": {"internal/durable", "internal/orphans"},
	"internal/git":       {"internal/failure", "internal/processgroup", "internal/testing/check"},
	"internal/staging":   {"schema", "internal/durable"},
	"internal/orphans":   {"internal/process"},
	"internal/testing/mailboxtest": {
		"schema", "signing", "mailbox", "mailbox/project", "internal/testing/check", "internal/testing/gittest", "internal/testing/memoryfolder",
	},
	"internal/testing/walk":     {"schema", "mailbox", "mailbox/project", "mailbox/replica", "internal/facts"},
	"internal/testing/terminal": {"internal/testing/modelstub", "internal/processgroup"},
	"internal/failure":          {"internal/durable", "internal/spelling", "schema", "mailbox", "agent", "ash", "contract", "mailbox/gitmail", "mailbox/project", "turn", "turn/track", "validate", "internal/git"},
	"internal/command": {
		"schema", "validate", "client", "mailbox", "mailbox/gitmail", "mailbox/project", "bridge", "turn/track", "internal/failure", "internal/guide", "internal/sibling", "internal/spelling",
		"internal/visible", "internal/orphans",
	},
}

// renaming lists the files outside internal/durable that rename files, with the reason.
var renaming = map[string]string{
	"ash/listen_unix.go":            "a socket is bound under a hidden name and renamed when it is ready",
	"mailbox/gitmail/init.go":       "a git repository gets its name when it is complete",
	"internal/testing/walk/walk.go": "a box is renamed away while a machine syncs",
}

// logging lists the files that import a logger although packages do not print, with the reason.
var logging = map[string]string{
	"cmd/oacp-mcp/mcpserver/http.go": "net/http reports errors only to a logger; this one calls a function of the caller",
}

// TestOneProgramLinksTheSchemaLibrary checks that only oacp-contract uses the library that applies
// JSON Schemas, because initializing it costs each process more than two milliseconds. Tests use it
// too.
func TestOneProgramLinksTheSchemaLibrary(t *testing.T) {
	found := 0
	for _, f := range programFiles(t) {
		for _, spec := range f.tree.Imports {
			if !strings.Contains(spec.Path.Value, "santhosh-tekuri/jsonschema") {
				continue
			}
			if found++; f.folder != "cmd/oacp-contract/judge" {
				f.report(t, spec, "%s imports %s; ask oacp-contract, see package contract", f.folder, spec.Path.Value)
			}
		}
	}
	for _, f := range sourceFiles(t) {
		for _, spec := range f.tree.Imports {
			if strings.HasSuffix(spec.Path.Value, `oacp-contract/judge"`) && f.folder != "cmd/oacp-contract" && !f.isTest {
				f.report(t, spec, "%s imports %s, which links the library", f.folder, spec.Path.Value)
			}
		}
	}
	if found == 0 {
		t.Error("no file imports the library: the test no longer finds what it looks for")
	}
}

// Upper bounds: lines of functions and files, and methods of types.
const (
	maxFunction = 80
	maxFile     = 400
)

// A sourceFile is a file of a package, parsed.
type sourceFile struct {
	path string
	// folder is the package's path below the module.
	folder string
	isTest bool
	tree   *ast.File
	set    *token.FileSet
}

func sourceFiles(t *testing.T) []sourceFile {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("found %d files of Go, want those of the whole repository", len(files))
	}
	return files
}

// programFiles returns the files that are not tests.
func programFiles(t *testing.T) []sourceFile {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(sourceFiles(t)), func(f sourceFile) bool { return f.isTest })
}

// parsed parses every file of the repository, once for all tests.
var parsed = sync.OnceValues(func() ([]sourceFile, error) {
	var files []sourceFile
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		f, err := parse(path)
		files = append(files, f)
		return err
	})
	return files, err
})

func parse(path string) (sourceFile, error) { return parseInto(token.NewFileSet(), path) }

func parseInto(set *token.FileSet, path string) (sourceFile, error) {
	f := sourceFile{path: path, isTest: strings.HasSuffix(path, "_test.go"), set: set}
	folder, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return f, err
	}
	f.folder = filepath.ToSlash(folder)
	f.tree, err = parser.ParseFile(f.set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

// name is the file's path below the module.
func (f sourceFile) name() string { return f.folder + "/" + filepath.Base(f.path) }

func (f sourceFile) report(t *testing.T, at ast.Node, format string, args ...any) {
	t.Helper()
	t.Errorf("%s: "+format, append([]any{f.set.Position(at.Pos())}, args...)...)
}

// selections calls visit for every selector on a name, such as os.Exit.
func (f sourceFile) selections(visit func(from string, selected *ast.SelectorExpr)) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if selected, ok := n.(*ast.SelectorExpr); ok {
			if from, ok := selected.X.(*ast.Ident); ok {
				visit(from.Name, selected)
			}
		}
		return true
	})
}

func TestImportsPointOneWay(t *testing.T) {
	unused := make(map[string][]string)
	for folder, allowed := range imports {
		unused[folder] = slices.Clone(allowed)
	}
	for _, f := range sourceFiles(t) {
		allowed, listed := imports[f.folder]
		for _, spec := range f.tree.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			used, ours := strings.CutPrefix(path, module)
			unused[f.folder] = slices.DeleteFunc(unused[f.folder], func(allowed string) bool { return allowed == used })
			switch {
			case !ours, used == f.folder, strings.HasPrefix(f.folder, "cmd/"):
			case slices.Contains(allowed, used):
			case strings.HasPrefix(f.folder, "internal/"):
				f.report(t, spec, "%s imports %s, which its row of the table does not list", f.folder, used)
			case strings.HasPrefix(used, "internal/") && listed && f.folder != "schema":
			case !listed:
				f.report(t, spec, "%s imports %s but has no row in the table of imports", f.folder, used)
			case !f.isTest:
				f.report(t, spec, "%s imports %s; it may import %q", f.folder, used, allowed)
			}
		}
	}
	for folder, left := range unused {
		if len(left) > 0 {
			t.Errorf("the table of imports lists %q for %s, which imports none of them", left, folder)
		}
	}
}

// TestOnlyDurableRenames checks that only internal/durable renames files, because it neither
// replaces nor loses any.
func TestOnlyDurableRenames(t *testing.T) {
	renames := []string{"Rename", "Renameat", "Renameat2", "RenameatxNp", "MoveFile", "MoveFileEx"}
	found := 0
	for _, f := range programFiles(t) {
		ast.Inspect(f.tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(renames, selector.Sel.Name) {
				if found++; f.folder != "internal/durable" && renaming[f.name()] == "" {
					f.report(t, call, "%s renames a file; use internal/durable", f.folder)
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("no file renames: the test no longer finds what it looks for")
	}
}

// opening lists the files that open others although they belong to packages that keep theirs in a
// workspace, with the reason.
var opening = map[string]string{
	"mailbox/sweep.go":           "it lists folders and opens no file",
	"mailbox/project/find.go":    "the folder of projects is in no workspace",
	"cmd/oacp-web/web/export.go": "an export is in no workspace",
}

// TestWorkspacesOpenThroughDurable checks that the packages that keep files in a workspace open them
// with internal/durable, because it follows no links and does not wait for pipes.
func TestWorkspacesOpenThroughDurable(t *testing.T) {
	packages := []string{"mailbox", "mailbox/conversation", "mailbox/project", "mailbox/watch", "mailbox/doctor", "mailbox/trust", "turn", "turn/track",
		"convert/mirror", "internal/exclusive", "cmd/oacp-dashboard/dashboard", "cmd/oacp-web/web"}
	opens := []string{"Open", "OpenFile", "ReadFile", "WriteFile", "Create", "CreateTemp", "ReadDir", "OpenRoot", "FS", "Truncate"}
	found := 0
	for _, f := range programFiles(t) {
		if !slices.Contains(packages, f.folder) {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(opens, selector.Sel.Name) {
				return true
			}
			found++
			from, isPackage := selector.X.(*ast.Ident)
			call, isRoot := selector.X.(*ast.CallExpr)
			if isRoot {
				root, ok := call.Fun.(*ast.SelectorExpr)
				isRoot = ok && root.Sel.Name == "Root"
			}
			if opening[f.name()] == "" && (isRoot || isPackage && slices.Contains([]string{"os", "root"}, from.Name)) {
				f.report(t, n, "%s opens a file with %s; use internal/durable", f.folder, selector.Sel.Name)
			}
			return true
		})
	}
	if found == 0 {
		t.Error("no file is opened: the test no longer finds what it looks for")
	}
}

// TestOnlyDurableMakesLocks checks that only internal/durable opens lock files, because it follows
// no links and does not wait for pipes.
func TestOnlyDurableMakesLocks(t *testing.T) {
	found := 0
	for _, f := range programFiles(t) {
		f.selections(func(from string, selected *ast.SelectorExpr) {
			if from == "flock" && strings.HasPrefix(selected.Sel.Name, "New") {
				if found++; f.folder != "internal/durable" {
					f.report(t, selected, "%s makes a lock; use durable.NewLock", f.folder)
				}
			}
		})
	}
	if found == 0 {
		t.Error("no file makes locks: the test no longer finds what it looks for")
	}
}

// TestPackagesDoNotPrint checks that only programs write to the terminal.
func TestPackagesDoNotPrint(t *testing.T) {
	for _, f := range programFiles(t) {
		if strings.HasPrefix(f.folder, "cmd/") || f.folder == "internal/command" {
			continue
		}
		for _, spec := range f.tree.Imports {
			if (spec.Path.Value == `"log"` || spec.Path.Value == `"log/slog"`) && logging[f.name()] == "" {
				f.report(t, spec, "%s imports %s; packages do not print", f.folder, spec.Path.Value)
			}
		}
		f.selections(func(from string, selected *ast.SelectorExpr) {
			if prints(from, selected.Sel.Name) {
				f.report(t, selected, "%s uses %s.%s; packages do not print", f.folder, from, selected.Sel.Name)
			}
		})
	}
}

func prints(of, name string) bool {
	switch of {
	case "fmt":
		return strings.HasPrefix(name, "Print")
	case "os":
		return name == "Stdout" || name == "Stderr" || name == "Exit"
	}
	return false
}

// TestSizes bounds what a reader has to keep in mind: the lines of a file and of a function.
func TestSizes(t *testing.T) {
	for _, f := range programFiles(t) {
		if lines := f.set.Position(f.tree.FileEnd).Line; lines > maxFile {
			f.report(t, f.tree, "%s has %d lines; the maximum is %d", f.name(), lines, maxFile)
		}
		for _, declaration := range f.tree.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := f.set.Position(function.End()).Line - f.set.Position(function.Pos()).Line + 1
			if lines > maxFunction {
				f.report(t, function, "%s has %d lines; the maximum is %d", function.Name.Name, lines, maxFunction)
			}
		}
	}
}

// TestPackagesHaveDocs checks that each package has one doc comment.
func TestPackagesHaveDocs(t *testing.T) {
	docs := make(map[string]int)
	for _, f := range programFiles(t) {
		docs[f.folder] += 0
		if f.tree.Doc != nil {
			docs[f.folder]++
		}
	}
	for folder, n := range docs {
		if n != 1 {
			t.Errorf("package %s has %d doc comments, want one", folder, n)
		}
	}
}

// TestStart checks that programs do not compile regular expressions when they start, which every
// command would pay for.
func TestStart(t *testing.T) {
	for _, f := range programFiles(t) {
		for _, declaration := range f.tree.Decls {
			if variables, ok := declaration.(*ast.GenDecl); ok && variables.Tok == token.VAR {
				for _, at := range compiledAtOnce(variables) {
					f.report(t, at, "this compiles a pattern at start-up; compile it on first use")
				}
			}
		}
	}
}

// compiledAtOnce returns the patterns that the initialization of variables compiles: all but those
// inside functions.
func compiledAtOnce(variables *ast.GenDecl) (found []ast.Node) {
	ast.Inspect(variables, func(n ast.Node) bool {
		if selected, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(selected.Sel.Name, "MustCompile") {
			found = append(found, selected)
		}
		_, isFunction := n.(*ast.FuncLit)
		return !isFunction
	})
	return found
}

func TestCompiledAtOnce(t *testing.T) {
	tests := map[string]int{
		`var a = regexp.MustCompile("a")`:                                                  1,
		`var a = map[string]*regexp.Regexp{"a": regexp.MustCompile("a")}`:                  1,
		`var a, b = regexp.MustCompile("a"), regexp.MustCompilePOSIX("b")`:                 2,
		`var a = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("a") })`: 0,
	}
	for source, want := range tests {
		file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(compiledAtOnce(file.Decls[0].(*ast.GenDecl))); got != want {
			t.Errorf("%s: found %d, want %d", source, got, want)
		}
	}
}
