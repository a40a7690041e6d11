package live

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox/project"
)

// codexIn returns the processes of codex with a terminal in a folder.
func codexIn(dir string) (found []process.Process) {
	want, err := os.Stat(dir)
	if err != nil {
		return nil
	}
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		if comm, err := os.ReadFile(name); err != nil || string(bytes.TrimSpace(comm)) != string(Codex) {
			continue
		}
		folder := filepath.Dir(name)
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		at, err := os.Stat(filepath.Join(folder, "cwd"))
		if p := process.Read(pid); err == nil && os.SameFile(at, want) && p.PID > 0 && !isShared(p) {
			found = append(found, p.Process)
		}
	}
	return found
}

// mayShow reports whether a session of a folder may be in a terminal.
func mayShow(dir string) bool { return len(codexIn(dir)) > 0 }

// codexOf returns the program that rings a process: the one that it runs, even if an update has replaced the
// file, or else the one on the PATH.
func codexOf(p process.Process) string {
	program := filepath.Join("/proc", strconv.Itoa(p.PID), "exe")
	if name, err := os.Readlink(program); err == nil && strings.HasPrefix(filepath.Base(name), string(Codex)) {
		return program
	}
	return string(Codex)
}

// hasSuccessor reports whether the process that runs the session of codex has opened another session since then. A
// new session has no event before its first prompt, but the process holds its lock open. If terminals share the
// process, the new session may be in any of them, until its first prompt creates a record.
func (s *Session) hasSuccessor(since time.Time) bool {
	server := s.Process
	if s.Server.PID > 0 {
		server = s.Server
	}
	files, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(server.PID), "fd", "*"))
	for _, file := range files {
		lock, err := os.Readlink(file)
		id, isLock := strings.CutSuffix(filepath.Base(lock), ".lock")
		if err != nil || !isLock || id == s.ID || !project.ValidSession(id) || filepath.Base(filepath.Dir(lock)) != "thread-writer-locks" {
			continue
		}
		if info, err := os.Stat(lock); err != nil || !info.ModTime().After(since) {
			continue
		}
		records, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(lock)), "sessions", "*", "*", "*", "*-"+id+".jsonl"))
		if s.Server.PID == 0 || len(records) == 0 {
			return true
		}
	}
	return false
}
