package live

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// readProcess returns a process, its parent, and the name of its program. The process is the zero value
// if there is none.
func readProcess(pid int) (p Process, parent int, name string) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || open < 0 || end < open {
		return Process{}, 0, ""
	}
	// The fields after the name: state, parent, …; the 20th is the start time. See proc_pid_stat(5).
	const startTime = 19
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) <= startTime || fields[0] == "Z" || fields[0] == "X" {
		return Process{}, 0, ""
	}
	parent, err = strconv.Atoi(fields[1])
	if err != nil {
		return Process{}, 0, ""
	}
	return Process{PID: pid, Started: fields[startTime]}, parent, string(stat[open+1 : end])
}
