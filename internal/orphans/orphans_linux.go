package orphans

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/process"
)

const (
	// patience is how long killed processes may take to die. A process that waits for a disk cannot
	// die before the disk answers.
	patience = 5 * time.Second
	interval = 10 * time.Millisecond
)

// end kills the processes with one of the marks. They may start others at the same time, so it searches
// until it finds none.
func end(ctx context.Context, marks []Mark) (ended []string, err error) {
	spared := ancestors()
	for deadline := time.Now().Add(patience); ; time.Sleep(interval) {
		found, err := kill(marks, spared)
		for _, name := range found {
			if !slices.Contains(ended, name) {
				ended = append(ended, name)
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

// descends reports whether an ancestor of this process was started with one of the marks.
func descends(marks []Mark) bool {
	for id := range ancestors() {
		if hasMark(filepath.Join("/proc", strconv.Itoa(id)), marks) {
			return true
		}
	}
	return false
}

// ancestors returns this process and its ancestors, as far as it sees them.
func ancestors() map[int]bool {
	found := make(map[int]bool)
	for id := os.Getpid(); id > 0 && !found[id]; id = process.Read(id).Parent {
		found[id] = true
	}
	return found
}

// kill kills the processes with one of the marks, and returns their names and numbers.
func kill(marks []Mark, spared map[int]bool) (found []string, err error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		id, numErr := strconv.Atoi(filepath.Base(folder))
		if numErr != nil || spared[id] {
			continue
		}
		// The handle comes before the check, so that the signal never reaches another process that gets
		// the same number.
		process, findErr := os.FindProcess(id)
		if findErr != nil {
			return found, findErr
		}
		if hasMark(folder, marks) {
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

// hasMark reports whether a process was started with one of the marks in its environment. It reports
// false for a process that has ended, whose environment is empty, and for one of another user, whose
// environment is unreadable.
func hasMark(folder string, marks []Mark) bool {
	data, _ := os.ReadFile(filepath.Join(folder, "environ"))
	for entry := range strings.SplitSeq(string(data), "\x00") {
		value, ok := strings.CutPrefix(entry, Variable+"=")
		if ok && slices.ContainsFunc(strings.Split(value, ":"), func(mark string) bool { return slices.Contains(marks, Mark(mark)) }) {
			return true
		}
	}
	return false
}
