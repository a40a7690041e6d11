package orphans

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxEnvironment bounds how much of an environment is read, in bytes.
const maxEnvironment = 4 << 20

const (
	// patience is how long killed processes may take to die. One that waits for a disk cannot die
	// before the disk answers.
	patience = 5 * time.Second
	interval = 10 * time.Millisecond
)

// end kills the processes with one of the marks. They may start others meanwhile, so it searches
// until it finds none.
func end(ctx context.Context, marks []Mark) ([]string, error) {
	spared, err := ancestors()
	if err != nil {
		return nil, err
	}
	var ended []string
	for deadline := time.Now().Add(patience); ; time.Sleep(interval) {
		found, err := kill(marks, spared)
		for _, name := range found {
			if !slices.Contains(ended, name) {
				ended = append(ended, name)
				deadline = time.Now().Add(patience)
			}
		}
		if err != nil || len(found) == 0 || ctx.Err() != nil {
			return ended, errors.Join(err, context.Cause(ctx))
		}
		if time.Now().After(deadline) {
			return ended, fmt.Errorf("leftover %s was killed but did not exit within %v", found[0], patience)
		}
	}
}

// ancestors returns this process and all that it descends from.
func ancestors() (map[int]bool, error) {
	found := make(map[int]bool)
	for id := os.Getpid(); id > 0 && !found[id]; {
		found[id] = true
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(id), "stat"))
		if errors.Is(err, os.ErrNotExist) {
			break // it is invisible to this process, or has just ended
		}
		if err != nil {
			return nil, err
		}
		// The name, in parentheses, may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 {
			return nil, fmt.Errorf("reading the parent of process %d: %q", id, stat)
		}
		if id, err = strconv.Atoi(fields[1]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// kill kills the processes with one of the marks, and returns their names and numbers.
func kill(marks []Mark, spared map[int]bool) (found []string, err error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		id, numErr := strconv.Atoi(filepath.Base(folder))
		if numErr != nil || spared[id] || !hasMark(id, marks) {
			continue
		}
		process, findErr := os.FindProcess(id)
		if findErr != nil {
			return found, findErr
		}
		// FindProcess returns a handle. If the process still has the mark, no other one can get the
		// signal.
		if hasMark(id, marks) {
			name, _ := os.ReadFile(filepath.Join(folder, "comm")) // for people
			text := fmt.Sprintf("%s (%d)", strings.TrimSpace(string(name)), id)
			switch killErr := process.Kill(); {
			case killErr == nil:
				found = append(found, text)
			case !errors.Is(killErr, os.ErrProcessDone):
				err = errors.Join(err, fmt.Errorf("killing leftover %s: %w", text, killErr))
			}
		}
		err = errors.Join(err, process.Release())
	}
	return found, err
}

// hasMark reports whether a process was started with one of the marks in its environment. That of a
// process that has ended is empty, and that of another user's cannot be read.
func hasMark(id int, marks []Mark) bool {
	file, err := os.Open(filepath.Join("/proc", strconv.Itoa(id), "environ"))
	if err != nil {
		return false
	}
	defer file.Close() // it is only read
	data, err := io.ReadAll(io.LimitReader(file, maxEnvironment))
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		value, ok := strings.CutPrefix(string(entry), Variable+"=")
		if !ok {
			continue
		}
		for mark := range strings.SplitSeq(value, ":") {
			if slices.Contains(marks, Mark(mark)) {
				return true
			}
		}
	}
	return false
}
