package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Read describes a process.
func Read(pid int) Info {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || open < 0 || end < open {
		return Info{}
	}
	// The fields after the name: state, parent, …; the 20th is the start time. See proc_pid_stat(5).
	const startTime = 19
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) <= startTime || fields[0] == "Z" || fields[0] == "X" {
		return Info{}
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return Info{}
	}
	arguments, _ := os.ReadFile(filepath.Join(folder, "cmdline")) // it may have ended
	return Info{Process{PID: pid, Started: fields[startTime]}, parent, string(stat[open+1 : end]), string(arguments)}
}
