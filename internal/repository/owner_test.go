package repository

import (
	"bufio"
	"bytes"
	"errors"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// sending lists the files outside mailbox and client that call what only client calls, with the reason.
var sending = map[string]string{
	"turn/conclude.go":          "it carries out what the journal of turns says about a message",
	"turn/outgoing.go":          "it sends drafts that the journal has, again after a crash",
	"mailbox/trust/setup.go":    "it proves that recipients verify a new key, as part of making it",
	"convert/mirror/deliver.go": "it delivers messages that an agent of a bridge log has sent there",

	"internal/testing/mailboxtest/mailboxtest.go": "only tests use it",
	"internal/testing/walk/actions.go":            "only tests use it",
}

// owned are the methods of mailbox.Workspace that decide what happens to a message: under which rules, package client knows.
var owned = []string{"Send", "SendParts", "SendAll", "Resend", "Acknowledge", "AcknowledgeAll"}

// TestOnlyClientSends checks that only package client sends and acknowledges messages, however its caller came to the
// workspace: it resolves each name to the method that it means.
func TestOnlyClientSends(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs the export data of all packages")
	}
	exports, inModule := exportData(t)
	set := token.NewFileSet()
	read := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("no export data of " + path)
		}
		return os.Open(exports[path])
	})
	found := make(map[string]bool)
	for _, path := range slices.Sorted(maps.Keys(inModule)) {
		folder := strings.TrimPrefix(path, module)
		files := make(map[string]sourceFile)
		var trees []*ast.File
		for _, name := range inModule[path] {
			f, err := parseInto(set, root+"/"+folder+"/"+name)
			if err != nil {
				t.Fatal(err)
			}
			files[f.path], trees = f, append(trees, f.tree)
		}
		info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
		if _, err := (&types.Config{Importer: read}).Check(path, set, trees, info); err != nil {
			t.Fatal(err)
		}
		for name, object := range info.Uses {
			if !isOwned(object) {
				continue
			}
			f := files[set.Position(name.Pos()).Filename]
			found[f.name()] = true
			if folder != "client" && sending[f.name()] == "" {
				f.report(t, name, "%s calls Workspace.%s; use package client, or list the file here with a reason", f.name(), name.Name)
			}
		}
	}
	if !found["client/send.go"] || !found["client/acknowledge.go"] {
		t.Error("no call in client is found: the test no longer finds what it looks for")
	}
	for name := range sending {
		if !found[name] {
			t.Errorf("%s is listed, but does not do that", name)
		}
	}
}

// isOwned reports whether the object is one of the owned methods.
func isOwned(object types.Object) bool {
	method, ok := object.(*types.Func)
	if !ok || method.Pkg() == nil || method.Pkg().Path() != module+"mailbox" || !slices.Contains(owned, method.Name()) {
		return false
	}
	receiver := method.Signature().Recv()
	if receiver == nil {
		return false
	}
	of := receiver.Type()
	if pointer, ok := of.(*types.Pointer); ok {
		of = pointer.Elem()
	}
	named, ok := of.(*types.Named)
	return ok && named.Obj().Name() == "Workspace"
}

// exportData returns the file with the exported types of each package, and the files of the packages of this module that
// depend on mailbox, for the system that runs the test.
func exportData(t *testing.T) (exports map[string]string, inModule map[string][]string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-f",
		`{{.ImportPath}}	{{.Export}}{{range .Deps}}{{if eq . "`+module+`mailbox"}}{{range $.GoFiles}}	{{.}}{{end}}{{end}}{{end}}`, "./...")
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports, inModule = make(map[string]string), make(map[string][]string)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		parts := strings.Split(lines.Text(), "\t")
		if exports[parts[0]] = parts[1]; len(parts) > 2 && strings.HasPrefix(parts[0], module) {
			inModule[parts[0]] = parts[2:]
		}
	}
	if len(inModule) < 20 {
		t.Fatalf("%d packages depend on mailbox, want most of the repository", len(inModule))
	}
	return exports, inModule
}
