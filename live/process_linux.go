package live

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox/project"
)

// readProcess describes a process.
func readProcess(pid int) runningProcess {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || open < 0 || end < open {
		return runningProcess{}
	}
	// The fields after the name: state, parent, …; the 20th is the start time. See proc_pid_stat(5).
	const startTime = 19
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) <= startTime || fields[0] == "Z" || fields[0] == "X" {
		return runningProcess{}
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return runningProcess{}
	}
	arguments, _ := os.ReadFile(filepath.Join(folder, "cmdline")) // it may have ended
	return runningProcess{Process{PID: pid, Started: fields[startTime]}, parent, string(stat[open+1 : end]), string(arguments)}
}

// codexIn returns the processes of codex with a terminal in a folder.
func codexIn(dir string) (found []Process) {
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
		if p := readProcess(pid); err == nil && os.SameFile(at, want) && p.PID > 0 && !p.shared() {
			found = append(found, p.Process)
		}
	}
	return found
}

// mayShow reports whether a session of a folder may be in a terminal.
func mayShow(dir string) bool { return len(codexIn(dir)) > 0 }

// codex returns the program to ring the process with: its own one, even if an update has replaced the
// file, or else the one on the PATH.
func (p Process) codex() string {
	program := filepath.Join("/proc", strconv.Itoa(p.PID), "exe")
	if name, err := os.Readlink(program); err == nil && strings.HasPrefix(filepath.Base(name), string(Codex)) {
		return program
	}
	return string(Codex)
}

// hasSuccessor reports whether the process that runs the session of codex has opened another one since then. That has
// no event before its first prompt, but a file that the process holds open. If terminals share the process, the
// other session may be in any of them, until a prompt makes it a record.
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
