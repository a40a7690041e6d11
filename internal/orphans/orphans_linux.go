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
func end(ctx context.Context, marks []Mark) ([]Process, error) {
	spared, err := ancestors()
	if err != nil {
		return nil, err
	}
	var ended []Process
	for deadline := time.Now().Add(patience); ; time.Sleep(interval) {
		found, err := marked(marks, spared)
		if err != nil || len(found) == 0 || ctx.Err() != nil {
			return ended, errors.Join(err, context.Cause(ctx))
		}
		if time.Now().After(deadline) {
			return ended, fmt.Errorf("process %d, which was left behind, was killed and has not died within %v", found[0], patience)
		}
		for _, id := range found {
			p, killed, err := kill(id, marks)
			if err != nil {
				return ended, err
			}
			if killed && !slices.Contains(ended, p) {
				ended = append(ended, p)
				deadline = time.Now().Add(patience)
			}
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

// marked returns the living processes with one of the marks.
func marked(marks []Mark, spared map[int]bool) ([]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, name := range names {
		id, err := strconv.Atoi(filepath.Base(name))
		if err == nil && !spared[id] && hasMark(id, marks) {
			found = append(found, id)
		}
	}
	return found, nil
}

// kill kills a process that has one of the marks. It holds the process by a handle, so that its
// number cannot become another's before the signal.
func kill(id int, marks []Mark) (p Process, killed bool, err error) {
	process, err := os.FindProcess(id)
	if err != nil {
		return p, false, err
	}
	defer func() { err = errors.Join(err, process.Release()) }()
	if !hasMark(id, marks) {
		return p, false, nil
	}
	name, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(id), "comm")) // for people
	p = Process{ID: id, Name: strings.TrimSpace(string(name))}
	err = process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("ending process %d (%s), which was left behind: %w", id, p.Name, err)
	}
	return p, true, nil
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
