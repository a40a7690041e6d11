package machine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestPrograms(t *testing.T) {
	i := inspector{
		lookPath: func(name string) (string, error) {
			if name == "codex" {
				return "", errors.New("executable file not found")
			}
			return "/bin/" + name, nil
		},
		version: func(_ context.Context, path string) (string, error) {
			if path == "/bin/node" {
				return "", errors.New("exit status 1")
			}
			return filepath.Base(path) + " 1.2", nil
		},
		readFile: os.ReadFile,
	}
	got := make(map[string]Check)
	for _, c := range i.inspect(t.Context()) {
		if c.For == "" {
			t.Errorf("check %s has no purpose", c.Name)
		}
		if c.Status != Good && c.Hint == "" {
			t.Errorf("check %s is %s and has no hint", c.Name, c.Status)
		}
		got[c.Name] = c
	}
	for name, want := range map[string]Status{"git": Good, "claude": Good, "codex": Absent, "node": Poor, "tmux": Good} {
		if got[name].Status != want {
			t.Errorf("%s is %s, want %s", name, got[name].Status, want)
		}
	}
	if want := "git 1.2 (/bin/git)"; got["git"].Detail != want {
		t.Errorf("detail of git is %q, want %q", got["git"].Detail, want)
	}
}

func TestWatchLimit(t *testing.T) {
	tests := []struct {
		content string
		err     error
		want    Status
	}{
		{content: "128\n", want: Good},
		{content: "1\n", want: Poor},
		{content: "many\n", want: Poor},
		{err: os.ErrNotExist, want: Absent},
	}
	for _, test := range tests {
		i := inspector{readFile: func(path string) ([]byte, error) {
			if want := "/proc/sys/fs/inotify/max_user_instances"; path != want {
				t.Errorf("read %s, want %s", path, want)
			}
			return []byte(test.content), test.err
		}}
		if got := i.watchLimit(watchLimits[0]); got.Status != test.want {
			t.Errorf("with %q and error %v the status is %s, want %s", test.content, test.err, got.Status, test.want)
		}
	}
}

// TestAskVersion asks a program whose output is too long.
func TestAskVersion(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	path := filepath.Join(t.TempDir(), "chatty")
	script := "#!/bin/sh\necho \"chatty $1 $(printf %0200d 7)\"\necho more\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := askVersion(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "chatty --version 000") || len(got) != 100 {
		t.Errorf("version is %q, want the first 100 characters of the first line", got)
	}
}

func TestAskVersionOfSilentProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	path := filepath.Join(t.TempDir(), "silent")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := askVersion(ctx, path); err == nil {
		t.Errorf("version is %q, want an error", got)
	}
}
