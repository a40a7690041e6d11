package ash

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// staleSocket leaves a socket without a listener at path, as a killed bridge does.
func staleSocket(t *testing.T, path string) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNewSocketPath(t *testing.T) {
	first, second := NewSocketPath(), NewSocketPath()
	if first == second {
		t.Errorf("the same path twice: %s", first)
	}
	if !regexp.MustCompile(`[/\\]ash-[a-z0-9]{8}\.sock$`).MatchString(first) {
		t.Errorf("got %s, want .../ash-<short-id>.sock", first)
	}
}

func TestListenPaths(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, path string) string
		want    error
	}{
		{"new", func(_ *testing.T, path string) string { return path }, nil},
		{"stale", func(t *testing.T, path string) string { staleSocket(t, path); return path }, nil},
		{"in use", func(t *testing.T, _ string) string { return serve(t, turns(echo)) }, ErrSocketInUse},
		{"too long", func(_ *testing.T, path string) string {
			return filepath.Join(filepath.Dir(path), strings.Repeat("x", 200))
		}, ErrSocketPath},
		{"deep folder", func(t *testing.T, path string) string {
			dir := filepath.Dir(path)
			dir = filepath.Join(dir, strings.Repeat("x", 100-len(dir)))
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			return dir + "/s"
		}, ErrSocketPath},
		{"empty", func(*testing.T, string) string { return "" }, ErrSocketPath},
		{"NUL", func(_ *testing.T, path string) string { return path + "\x00" }, ErrSocketPath},
		{"no folder", func(_ *testing.T, path string) string { return path + "/a/b" }, os.ErrNotExist},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := test.prepare(t, socketPath(t))
			server, err := Listen(path, turns(echo))
			if !errors.Is(err, test.want) {
				t.Fatalf("Listen: got %v, want %v", err, test.want)
			}
			if err != nil {
				return
			}
			if got := server.SocketPath(); got != path {
				t.Errorf("SocketPath: got %s, want %s", got, path)
			}
			wantFolder(t, path, filepath.Base(path))
			for range 2 {
				if err := server.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			wantFolder(t, path)
			if err := server.Serve(context.Background()); err != nil {
				t.Errorf("Serve on a closed server: %v", err)
			}
		})
	}
}

// wantFolder checks what the socket's folder holds: no lock and no temporary folder is left behind.
func wantFolder(t *testing.T, path string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
}

func TestListenLeavesFileAlone(t *testing.T) {
	path := socketPath(t)
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, turns(echo)); !errors.Is(err, ErrSocketPath) {
		t.Errorf("Listen on a regular file: got %v, want %v", err, ErrSocketPath)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file holds %q, error %v", text, err)
	}
}

// TestListenRace checks that exactly one of many servers takes over the same stale socket.
func TestListenRace(t *testing.T) {
	for range 20 {
		path := socketPath(t)
		staleSocket(t, path)
		type result struct {
			server *Server
			err    error
		}
		results := make(chan result, 8)
		for range cap(results) {
			go func() {
				server, err := Listen(path, turns(echo))
				results <- result{server, err}
			}()
		}
		var won []*Server
		for range cap(results) {
			got := receive(t, results, "a server")
			if got.err == nil {
				won = append(won, got.server)
			} else if !errors.Is(got.err, ErrSocketInUse) {
				t.Errorf("Listen: got %v, want %v", got.err, ErrSocketInUse)
			}
		}
		if len(won) != 1 {
			t.Errorf("%d servers listen on one socket", len(won))
		}
		for _, server := range won {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestCloseLeavesSuccessorAlone checks that a server does not remove a socket that replaced its
// own.
func TestCloseLeavesSuccessorAlone(t *testing.T) {
	path := socketPath(t)
	first, err := Listen(path, turns(echo))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(path, turns(echo))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the second server's socket: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the second server left its socket behind: %v", err)
	}
}
