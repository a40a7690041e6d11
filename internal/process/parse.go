package process

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
)

// parseStat parses /proc/PID/stat of Linux, without the arguments. The zero Info stands for a process that has ended. The fields after
// the name: state, parent, …; the 20th is the start time. See proc_pid_stat(5).
func parseStat(pid int, stat []byte) Info {
	const startTime = 19
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return Info{}
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) <= startTime || fields[0] == "Z" || fields[0] == "X" {
		return Info{}
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return Info{}
	}
	isLeader := fields[3] == strconv.Itoa(pid)
	return Info{Process: Process{PID: pid, Started: fields[startTime]}, Parent: parent, Leader: isLeader, Name: string(stat[open+1 : end])}
}

// parseProcargs2 returns the arguments in kern.procargs2 of macOS, in the form of /proc/PID/cmdline of Linux: each ends with NUL. The
// buffer has the number of arguments in four bytes, the path of the program, NULs up to a multiple of eight bytes, the
// arguments, and the environment.
func parseProcargs2(data []byte) string {
	const numberSize = 4
	if len(data) < numberSize {
		return ""
	}
	count, rest := binary.LittleEndian.Uint32(data), data[numberSize:]
	path := bytes.IndexByte(rest, 0)
	if path < 0 {
		return ""
	}
	for rest = rest[path:]; len(rest) > 0 && rest[0] == 0; {
		rest = rest[1:]
	}
	end := 0
	for range min(count, uint32(len(rest))) {
		length := bytes.IndexByte(rest[end:], 0)
		if length < 0 {
			return "" // the buffer was cut off
		}
		end += length + 1
	}
	return string(rest[:end])
}
