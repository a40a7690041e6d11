package live

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/internal/testing/terminal"
	"github.com/oacp-go/oacp/mailbox/watch"
)

// TestSuccessor checks which files of a process mean that the terminal of a session may show another one.
func TestSuccessor(t *testing.T) {
	const lock, record = "thread-writer-locks/another.lock", "sessions/2026/03/13/rollout-2026-03-13T14-30-00-another.jsonl"
	tests := map[string]struct {
		files        []string
		earlier      bool
		alone, among bool // with a process of its own, and with a shared one
	}{
		"nothing":            {},
		"another":            {files: []string{lock}, alone: true, among: true},
		"another of before":  {files: []string{lock}, earlier: true},
		"with a record":      {files: []string{lock, record}, alone: true},
		"its own":            {files: []string{"thread-writer-locks/" + sessionID + ".lock"}},
		"a file":             {files: []string{"thread-writer-locks/another"}},
		"in another folder":  {files: []string{"another.lock"}},
		"that is no session": {files: []string{"thread-writer-locks/*.lock"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			seat, home := newSeat(t), t.TempDir()
			here, other := process.Read(os.Getpid()).Process, process.Read(seat.process.Process.Pid).Process
			seat.begin()
			seat.change(func(state *Session) { state.Process = here })
			f := seat.follower()
			for _, file := range test.files {
				path := filepath.Join(home, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				seat.write(path, "", 0o600)
				held, err := os.Open(path)
				if test.earlier && err == nil {
					earlier := f.changed.Add(-time.Second)
					err = os.Chtimes(path, earlier, earlier)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { held.Close() })
			}
			seat.send(1, nil)
			if files, _, err := f.due(t.Context()); (len(files) == 0) != test.alone || err != nil {
				t.Errorf("a session whose process has %q open is rung for %q, %v", test.files, files, err)
			}
			if s := (&Session{ID: sessionID, Process: other, Server: here}); s.hasSuccessor(f.changed) != test.among {
				t.Errorf("a session whose shared process has %q open has a successor: %t", test.files, !test.among)
			}
		})
	}
}

// TestClearedCodex checks with the real codex that a session has a successor when its terminal shows another one,
// which has no event before its first prompt.
func TestClearedCodex(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("sessions in terminals take long")
	}
	for name, shared := range map[string]bool{"with a process of its own": false, "with a shared process": true} {
		t.Run(name, func(t *testing.T) {
			home, folder := t.TempDir(), t.TempDir()
			server := modelstub.Start(t, func(context.Context, modelstub.Request) modelstub.Reply { return modelstub.Reply{Text: "Well."} })
			env := server.CodexTerminalEnv(t, home, folder)
			if shared {
				modelstub.ShareCodex(t, home, env)
			}
			term := terminal.Start(t, terminal.Options{Dir: folder, Env: env, Command: []string{modelstub.Program(t, "codex")}})
			term.Await("stub-model default")
			term.Say("good morning")
			term.Await("Worked for")

			locks, terminals := filepath.Join(home, ".codex", "thread-writer-locks"), codexIn(folder)
			names, err := filepath.Glob(filepath.Join(locks, "*-*.lock"))
			if err != nil || len(names) != 1 || len(terminals) != 1 {
				t.Fatalf("codex has the locks %q, %v, and is in the processes %v; want one", names, err, terminals)
			}
			s := &Session{ID: strings.TrimSuffix(filepath.Base(names[0]), ".lock"), Process: terminals[0]}
			if shared {
				var daemon struct{ PID int }
				data, err := os.ReadFile(filepath.Join(home, ".codex", "app-server-daemon", "daemon.pid"))
				if err == nil {
					err = json.Unmarshal(data, &daemon)
				}
				if err != nil {
					t.Fatal(err)
				}
				s.Server = process.Read(daemon.PID).Process
			}
			since := time.Now()
			if s.hasSuccessor(since.Add(-time.Hour)) || s.hasSuccessor(since) {
				t.Error("the session of the terminal has a successor")
			}
			term.Say("/clear")
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			if err := watch.Await(ctx, []string{locks}, func() (bool, error) { return s.hasSuccessor(since), nil }); err != nil {
				t.Fatalf("the session has no successor after /clear: %v\n%s", err, term.Screen())
			}
			term.Say("good evening")
			term.Await("good evening", "Worked for")
			if s.hasSuccessor(since) == shared {
				t.Errorf("after a prompt, a session has a successor without a record: %t", shared)
			}
		})
	}
}
