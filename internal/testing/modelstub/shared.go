package modelstub

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// stopper is a shell script that ends the shared process of codex when its input ends. $0 is the program.
const stopper = `trap "" HUP INT TERM; cat >/dev/null; exec "$0" app-server daemon stop`

// ShareCodex makes the terminals of codex share a process, as they do by default. The first of them
// starts it. env is the result of CodexTerminalEnv. The process ends with the test, even if that is killed,
// and removes its socket, for which codex always uses a folder in /tmp.
func ShareCodex(t testing.TB, home string, env []string) {
	t.Helper()
	program := Program(t, "codex")
	folder := filepath.Join(home, ".codex")
	installCodex(t, program, filepath.Join(folder, "packages", "app-server-daemon"))
	config := filepath.Join(folder, "config.toml")
	data, err := os.ReadFile(config)
	if err == nil {
		err = os.WriteFile(config, bytes.Replace(data, []byte("daemon_auto_start = false\n"), nil, 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(filepath.Join(home, "stopper")) // codex would fail to write to a pipe that nobody reads
	if err != nil {
		t.Fatal(err)
	}
	stop := exec.Command("sh", "-c", stopper, program)
	stop.Env, stop.Stdout, stop.Stderr = append(os.Environ(), env...), said, said
	alive, err := stop.StdinPipe()
	if err == nil {
		err = stop.Start()
	}
	if err = errors.Join(err, said.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		socket, _ := os.Readlink(filepath.Join(folder, "app-server-control", "app-server-control.sock")) // there may be none
		if err := errors.Join(alive.Close(), stop.Wait()); err != nil {
			text, _ := os.ReadFile(said.Name())
			t.Errorf("ending the shared process: %v\n%s", err, text)
		}
		killCodex(t, filepath.Join(folder, "app-server-daemon", "daemon.pid"), socket)
	})
}

// installCodex makes a link to the installed codex where codex would otherwise copy itself, which takes
// 400 MB, when it starts the shared process.
func installCodex(t testing.TB, program, packages string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(resolved(t, program), "..", "..", "..", "codex-*", "vendor", "*", "codex-package.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the packages of codex are %q, %v; want one", found, err)
	}
	var installed struct{ Version, Target string }
	data, err := os.ReadFile(found[0])
	if err == nil {
		err = json.Unmarshal(data, &installed)
	}
	release := filepath.Join(packages, "releases", installed.Version+"-"+installed.Target)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(release), 0o700)
	}
	if err == nil {
		err = errors.Join(os.Symlink(filepath.Dir(found[0]), release), os.Symlink(release, filepath.Join(packages, "current")))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// killCodex kills the shared process if it has not ended, and removes its socket.
func killCodex(t testing.TB, pidFile, socket string) {
	t.Helper()
	var left struct{ PID int }
	data, err := os.ReadFile(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(data, &left)
	}
	if err == nil && left.PID > 0 {
		t.Errorf("the shared process %d has not ended: it is killed", left.PID)
		var process *os.Process
		if process, err = os.FindProcess(left.PID); err == nil {
			err = process.Kill()
		}
	}
	if strings.Contains(socket, "codex-daemon") {
		err = errors.Join(err, os.Remove(socket), os.Remove(socket+".lock"))
	}
	if err != nil {
		t.Error(err)
	}
}
