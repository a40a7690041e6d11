package repository

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryDependencyHasAReason checks that the README lists each direct dependency of go.mod, once
// and with a reason.
func TestEveryDependencyHasAReason(t *testing.T) {
	rows := dependencyRows(t)
	needed := directDependencies(read(t, "go.mod"))
	if len(needed) < 10 {
		t.Fatalf("found %d dependencies in go.mod, want all of them: %v", len(needed), needed)
	}
	for _, module := range needed {
		// A tool is a package in a module.
		if !slices.ContainsFunc(rows, func(row string) bool { return isOf(module, row) }) {
			t.Errorf("README.md has no reason for %s", module)
		}
	}
	for i, row := range rows {
		if !slices.ContainsFunc(needed, func(module string) bool { return isOf(module, row) }) {
			t.Errorf("README.md lists %s, which go.mod does not require", row)
		}
		if slices.Contains(rows[:i], row) {
			t.Errorf("README.md lists %s twice", row)
		}
	}
}

// isOf reports whether the path is the module or a package in it.
func isOf(path, module string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// dependencyRows returns the modules in the table of the README.
func dependencyRows(t *testing.T) []string {
	t.Helper()
	_, section, ok := strings.Cut(read(t, "README.md"), "\n## Dependencies\n")
	if !ok {
		t.Fatal("README.md has no section Dependencies")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for line := range strings.Lines(section) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			rows = append(rows, name)
		}
	}
	return rows
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// directDependencies returns the modules that are not marked as indirect, and the tool packages.
func directDependencies(goMod string) []string {
	var found []string
	for line := range strings.Lines(goMod) {
		fields := strings.Fields(line)
		if len(fields) > 0 && (fields[0] == "require" || fields[0] == "tool") {
			fields = fields[1:]
		}
		isModule := len(fields) == 2 && strings.HasPrefix(fields[1], "v")
		isTool := len(fields) == 1 && strings.Contains(fields[0], "/")
		if isModule || isTool {
			found = append(found, fields[0])
		}
	}
	return found
}

func TestDirectDependencies(t *testing.T) {
	const goMod = `module example.org/m

go 1.26.0

require example.org/alone v1.0.0

require (
	example.org/a v1.2.3
	example.org/b/v2 v2.0.0-20260703014108-f5a850f9c2b7
	example.org/other v0.1.0 // indirect
)

tool example.org/t/cmd/t

tool (
	example.org/u/cmd/u
)
`
	want := []string{"example.org/alone", "example.org/a", "example.org/b/v2", "example.org/t/cmd/t", "example.org/u/cmd/u"}
	if got := directDependencies(goMod); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
