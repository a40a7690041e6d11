package repository

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// architecture is the page that most tests of this file check.
const architecture = "ARCHITECTURE.md"

var (
	packageRow = regexp.MustCompile("^\\| `([a-z/-]+)` \\|")
	quoted     = regexp.MustCompile("`([^`]+)`")
)

// TestArchitectureListsPackages checks that the table has a row for each package that is not only
// for tests, below the rows of all packages that it imports.
func TestArchitectureListsPackages(t *testing.T) {
	var rows []string
	for line := range strings.Lines(read(t, architecture)) {
		if match := packageRow.FindStringSubmatch(line); match != nil {
			rows = append(rows, match[1])
		}
	}
	if len(rows) < 30 {
		t.Fatalf("the table has %d rows, want one for each package", len(rows))
	}
	reported := map[string]bool{}
	for _, f := range programFiles(t) {
		row := slices.Index(rows, packageOf(f.folder))
		if row < 0 && !forTests(f.folder) && !reported[f.folder] {
			reported[f.folder] = true
			t.Errorf("%s has no row for %s", architecture, f.folder)
		}
		if row < 0 {
			continue
		}
		for _, spec := range f.tree.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			used, ours := strings.CutPrefix(path, module)
			if ours && packageOf(used) != packageOf(f.folder) && slices.Index(rows, packageOf(used)) > row {
				f.report(t, spec, "%s imports %s, which stands below it in %s", f.folder, used, architecture)
			}
		}
	}
	for _, row := range rows {
		if info, err := os.Stat(filepath.Join(root, row)); err != nil || !info.IsDir() {
			t.Errorf("%s has a row for %s, which is no folder", architecture, row)
		}
	}
}

// packageOf returns the row of a package: the parts of a program share one.
func packageOf(folder string) string {
	if parts := strings.Split(folder, "/"); parts[0] == "cmd" && len(parts) > 2 {
		return strings.Join(parts[:2], "/")
	}
	return folder
}

// forTests reports whether only tests use the package; ARCHITECTURE.md names such packages below
// its table.
func forTests(folder string) bool {
	return strings.HasPrefix(folder, "internal/testing/")
}

// TestArchitectureNamesFiles checks that every file that the page names exists: a path from the
// repository's root, or a name in the package that its row names first.
func TestArchitectureNamesFiles(t *testing.T) {
	found := 0
	for line := range strings.Lines(read(t, architecture)) {
		folder := "."
		for _, match := range quoted.FindAllStringSubmatch(line, -1) {
			name := match[1]
			if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.IsDir() {
				folder = name
			}
			if !strings.HasSuffix(name, ".go") {
				continue
			}
			found++
			_, atRoot := os.Stat(filepath.Join(root, name))
			_, inFolder := os.Stat(filepath.Join(root, folder, name))
			if errors.Is(atRoot, fs.ErrNotExist) && errors.Is(inFolder, fs.ErrNotExist) {
				t.Errorf("%s names %s, which does not exist in %s", architecture, name, folder)
			}
		}
	}
	if found < 8 {
		t.Errorf("the page names %d files, want at least 8", found)
	}
}

// TestRecipesInstallAllPrograms checks that the pages install all programs wherever they install
// oacp, because oacp starts the others.
func TestRecipesInstallAllPrograms(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(read(t, name)) {
			if !strings.Contains(line, "go install") {
				continue
			}
			if found++; !strings.Contains(line, "/cmd/...") {
				t.Errorf("%s: %q installs only some programs", page, strings.TrimSpace(line))
			}
		}
	}
	if found == 0 {
		t.Error("no page installs oacp: the test no longer finds what it looks for")
	}
}

// TestReleaseHasAllPrograms checks that a release builds each program, and that the Homebrew cask installs it.
func TestReleaseHasAllPrograms(t *testing.T) {
	release := read(t, ".goreleaser.yaml")
	_, cask, _ := strings.Cut(release, "    binaries: [")
	cask, _, _ = strings.Cut(cask, "]")
	folders, err := filepath.Glob(filepath.Join(root, "cmd", "oacp*"))
	if err != nil || len(folders) == 0 {
		t.Fatal("no programs are found:", err)
	}
	for _, folder := range folders {
		name := filepath.Base(folder)
		if !regexp.MustCompile(`main: \./cmd/` + name + `[,\n]`).MatchString(release) {
			t.Errorf(".goreleaser.yaml does not build %s", name)
		}
		if !slices.Contains(strings.Split(cask, ", "), name) {
			t.Errorf("the cask of .goreleaser.yaml does not install %s", name)
		}
	}
}
