// Package gittest runs git in tests, isolated from the settings and repositories of the user.
package gittest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Settings are the settings of git in tests.
const Settings = `[user]
	name = Test
	email = test@example.com
[init]
	defaultBranch = main
[protocol "file"]
	allow = always
[maintenance]
	auto = false
[receive]
	autogc = false
`

// withoutTemplates keeps git from copying sample hooks to each new repository.
const withoutTemplates = "[init]\n\ttemplateDir =\n"

// variables writes the settings to a home folder, and returns the variables with which git uses only these. git
// finds no repository in the folder for temporary files or above it.
func variables(home, settings string) (map[string]string, error) {
	temporary, err := filepath.EvalSymlinks(os.TempDir())
	config := filepath.Join(home, ".gitconfig")
	if err := errors.Join(err, os.WriteFile(config, []byte(settings), 0o644)); err != nil {
		return nil, err
	}
	return map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": config,
		"GIT_CEILING_DIRECTORIES": temporary,
	}, nil
}

// Isolate makes this process, and those that it starts, use the home folder and the settings of tests. TestMain calls it.
func Isolate(home string) error {
	set, err := variables(home, Settings+withoutTemplates)
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "GIT_") {
			err = errors.Join(err, os.Unsetenv(name))
		}
	}
	for name, value := range set {
		err = errors.Join(err, os.Setenv(name, value))
	}
	return err
}

// Home gives a test a home folder of its own, and returns its path without symbolic links.
func Home(t testing.TB) string {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	set, err := variables(home, Settings)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range set {
		t.Setenv(name, value)
	}
	return home
}

// Run runs git in a folder, and returns what it prints, without the last line break.
func Run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := Try(dir, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(out, "\n")
}

// Try runs git in a folder, and returns what it prints.
func Try(dir, input string, args ...string) (string, error) {
	command := exec.Command("git", args...)
	command.Dir, command.Stdin, command.Env = dir, strings.NewReader(input), Environment()
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("git %s in %s: %w: %s", strings.Join(args, " "), dir, err, &errs)
	}
	return string(out), err
}

// Environment returns the environment of this process without variables that a test may have set to disturb git.
func Environment() []string {
	kept := []string{"GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CEILING_DIRECTORIES"}
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "GIT_") && !slices.Contains(kept, name)
	})
}
