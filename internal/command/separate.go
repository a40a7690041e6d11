package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/failure"
)

// Separate is a command that is a program of its own: "oacp NAME" runs the program oacp-NAME.
type Separate struct {
	Name     string
	Category string
	// Usage is empty for a program that other commands call. Help does not list it.
	Usage string
}

const separatePrefix = "oacp-"

// isSeparate reports whether "oacp NAME" runs a program of its own.
func (p *Program) isSeparate(name string) bool {
	return p.ships(name) || p.Exec != nil && FindSeparate(name) != ""
}

func (p *Program) ships(name string) bool {
	return slices.ContainsFunc(p.Separate, func(s Separate) bool { return s.Name == name })
}

// runSeparate replaces this process by the program, which so gets the signals and sets the exit
// status itself.
func (p *Program) runSeparate(c *call) error {
	path := FindSeparate(c.separate)
	if path == "" {
		return &failure.Error{
			Code: "not_installed",
			Hint: "go install ./cmd/... in a clone of the repository installs it",
			Err: fmt.Errorf("%s: the program %s is neither next to oacp nor on the PATH",
				c.separate, separatePrefix+c.separate),
		}
	}
	return p.Exec(path, append([]string{path}, c.words...))
}

// FindSeparate returns the path of the program oacp-NAME: beside this program, or on the PATH. It
// is empty if there is none.
func FindSeparate(name string) string {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`).MatchString(name) {
		return ""
	}
	path, err := exec.LookPath(filepath.Join(ownFolder(), separatePrefix+name))
	if err != nil {
		path, err = exec.LookPath(separatePrefix + name)
	}
	if err != nil {
		return ""
	}
	return path
}

// ownFolder returns the folder of this program, or nothing if it is unknown.
func ownFolder() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return filepath.Dir(path)
}

// separateNames returns the names of all programs that "oacp NAME" runs: those that are installed
// with this one, and those that are found.
func (p *Program) separateNames() []string {
	var names []string
	for _, s := range p.Separate {
		names = append(names, s.Name)
	}
	if p.Exec == nil {
		return names
	}
	for _, folder := range append(filepath.SplitList(os.Getenv("PATH")), ownFolder()) {
		entries, _ := os.ReadDir(folder) // folders of the PATH need not exist
		for _, entry := range entries {
			name, ok := strings.CutPrefix(entry.Name(), separatePrefix)
			if runtime.GOOS == "windows" {
				name = strings.TrimSuffix(name, ".exe")
			}
			if ok && !slices.Contains(names, name) && FindSeparate(name) != "" {
				names = append(names, name)
			}
		}
	}
	return names
}
