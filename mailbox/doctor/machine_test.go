package doctor

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// program writes a shell script to a folder.
func program(t *testing.T, folder, name, script string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInspectMachine(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"git", "claude", "tmux"} {
		program(t, folder, name, "echo "+name+" 1.2 $1")
	}
	program(t, folder, "node", "exit 1")
	t.Setenv("PATH", folder)
	got := make(map[string]Finding)
	for _, f := range InspectMachine(t.Context()) {
		if f.Severity != SeverityOK && f.Hint == "" {
			t.Errorf("%s is %s and has no hint", f.Name, f.Severity)
		}
		got[f.Name] = f
	}
	for name, want := range map[string]struct {
		severity Severity
		message  string
	}{
		"git": {SeverityOK, "git 1.2 --version (" + folder + "/git)"}, "claude": {SeverityOK, "claude 1.2 --version (" + folder + "/claude)"},
		"codex": {SeveritySkipped, "not on the PATH; optional, for turns run by Codex"},
		"node":  {SeverityWarning, folder + "/node --version: exit status 1; for agents and bridges written in JavaScript"},
		"tmux":  {SeverityOK, "tmux 1.2 -V (" + folder + "/tmux)"},
	} {
		if got[name].Severity != want.severity || got[name].Message != want.message {
			t.Errorf("%s is %s: %q, want %s: %q", name, got[name].Severity, got[name].Message, want.severity, want.message)
		}
	}
}

func TestWatchLimit(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a setting of Linux")
	}
	for _, test := range []struct {
		setting string
		enough  int
		want    Severity
	}{
		{"fs.inotify.max_user_instances", 1, SeverityOK}, {"fs.inotify.max_user_instances", 1 << 40, SeverityWarning},
		{"kernel.ostype", 1, SeverityWarning}, {"fs.inotify.none", 1, SeveritySkipped},
	} {
		if got := watchLimit("limit", test.setting, test.enough); got.Severity != test.want {
			t.Errorf("%s with at least %d is %s: %s, want %s", test.setting, test.enough, got.Severity, got.Message, test.want)
		}
	}
}

// TestAskVersion asks a program whose output is too long.
func TestAskVersion(t *testing.T) {
	got, err := askVersion(t.Context(), program(t, t.TempDir(), "chatty", `echo "chatty $1 $(printf %0200d 7)"; echo more`))
	if err != nil || !strings.HasPrefix(got, "chatty --version 000") || len(got) != 100 {
		t.Errorf("version is %q, %v, want the first 100 characters of the first line", got, err)
	}
}

func TestAskVersionOfSilentProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := askVersion(ctx, program(t, t.TempDir(), "silent", "exec sleep 600")); err == nil {
		t.Errorf("version is %q, want an error", got)
	}
}
