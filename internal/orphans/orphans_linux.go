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

	"golang.org/x/sys/unix"
)

// maxEnvironment bounds how much of an environment is looked at, in bytes.
const maxEnvironment = 4 << 20

// patience is how long a process that was killed may take to die. One that
// waits for a disk cannot before that answers.
const patience = 5 * time.Second

// end kills the processes that bear one of the marks. One may start others
// while it is being looked for, so the search is repeated until it finds none.
func end(ctx context.Context, marks []Mark) ([]Process, error) {
	spared, err := ancestors()
	if err != nil {
		return nil, err
	}
	var ended []Process
	for {
		found, err := marked(marks, spared)
		if err != nil || len(found) == 0 {
			return ended, errors.Join(err, context.Cause(ctx))
		}
		for _, id := range found {
			name, killed, killErr := kill(id, marks)
			if killed && !slices.ContainsFunc(ended, func(p Process) bool { return p.ID == id }) {
				ended = append(ended, Process{ID: id, Name: name})
			}
			err = errors.Join(err, killErr)
		}
		if err != nil || ctx.Err() != nil {
			return ended, errors.Join(err, context.Cause(ctx))
		}
	}
}

// ancestors are this process and all that it descends from.
func ancestors() (map[int]bool, error) {
	found := make(map[int]bool)
	for id := os.Getpid(); id > 0 && !found[id]; {
		found[id] = true
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(id), "stat"))
		if errors.Is(err, os.ErrNotExist) {
			break // outside of what this process can see, or just ended
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

// marked returns the living processes that bear one of the marks.
func marked(marks []Mark, spared map[int]bool) ([]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, name := range names {
		id, err := strconv.Atoi(filepath.Base(name))
		if err == nil && !spared[id] && bears(id, marks) {
			found = append(found, id)
		}
	}
	return found, nil
}

// kill kills a process that bears one of the marks and waits until it is dead.
// It holds the process, where the system can, so that its number cannot become
// another's meanwhile.
func kill(id int, marks []Mark) (name string, killed bool, err error) {
	fd, err := unix.PidfdOpen(id, 0)
	if err == nil {
		defer func() { err = errors.Join(err, unix.Close(fd)) }()
	} else if errors.Is(err, unix.ESRCH) {
		return "", false, nil
	}
	held := err == nil
	if !bears(id, marks) { // it has ended, and the number may be another's
		return "", false, nil
	}
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(id), "comm")) // for people
	name = strings.TrimSpace(string(text))
	if held {
		err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	} else {
		err = unix.Kill(id, unix.SIGKILL) // as good as it gets before Linux 5.3
	}
	switch {
	case errors.Is(err, unix.ESRCH):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("ending process %d (%s), which was left behind: %w", id, name, err)
	}
	deadline := time.Now().Add(patience)
	for bears(id, marks) && time.Now().Before(deadline) {
		if err := await(fd, held); err != nil {
			return name, true, err
		}
	}
	if bears(id, marks) {
		return name, true, fmt.Errorf("process %d (%s), which was left behind, was killed and has not died within %v", id, name, patience)
	}
	return name, true, nil
}

// await waits for a process to die, a moment at most.
func await(fd int, held bool) error {
	const moment = 10 // milliseconds
	var watched []unix.PollFd
	if held {
		watched = []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	}
	if _, err := unix.Poll(watched, moment); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	return nil
}

// bears reports whether a process has one of the marks in the environment that
// it was started with. That of a process that has ended is empty, that of
// another user cannot be read.
func bears(id int, marks []Mark) bool {
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
		borne, ok := strings.CutPrefix(string(entry), Variable+"=")
		if !ok {
			continue
		}
		for mark := range strings.SplitSeq(borne, ":") {
			if slices.Contains(marks, Mark(mark)) {
				return true
			}
		}
	}
	return false
}
