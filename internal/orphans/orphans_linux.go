package orphans

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxEnvironment bounds how much of an environment is looked at, in bytes.
const maxEnvironment = 4 << 20

// end kills the processes whose environment holds the entry, which has a zero
// byte on both sides. One may start others while it is being looked for, so
// the search is repeated until it finds none.
func end(ctx context.Context, entry []byte) (ended int, err error) {
	known := make(map[int]bool)
	for {
		found, err := marked(entry)
		if err != nil {
			return len(known), err
		}
		if len(found) == 0 {
			return len(known), context.Cause(ctx)
		}
		for _, process := range found {
			known[process.id] = true
			err = errors.Join(err, process.kill())
		}
		if err != nil || ctx.Err() != nil {
			return len(known), errors.Join(err, context.Cause(ctx))
		}
	}
}

// A process that has the mark, held so that its number cannot become
// another's.
type process struct {
	id   int
	file *os.File
}

// kill kills the process and waits until it is dead.
func (p process) kill() (err error) {
	defer func() { err = errors.Join(err, p.file.Close()) }()
	fd := int(p.file.Fd())
	switch err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err != nil:
		return fmt.Errorf("ending process %d, which was left behind: %w", p.id, err)
	}
	// A killed process that cannot die yet, such as one that waits for a disk,
	// is not waited for without end.
	const patience = 5000 // milliseconds
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, patience)
	if errors.Is(err, unix.EINTR) {
		err = nil // it is looked at again
	}
	return err
}

// marked returns the living processes that have the entry in the environment
// they were started with.
func marked(entry []byte) (found []process, err error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	for _, name := range names {
		id, err := strconv.Atoi(filepath.Base(name))
		if err != nil || id == self || !hasEntry(name, entry) {
			continue
		}
		fd, err := unix.PidfdOpen(id, 0)
		if err != nil {
			continue // it has ended
		}
		p := process{id: id, file: os.NewFile(uintptr(fd), name)}
		if !hasEntry(name, entry) { // the number was another's meanwhile
			if err := p.file.Close(); err != nil {
				return found, err
			}
			continue
		}
		found = append(found, p)
	}
	return found, nil
}

// hasEntry reports whether a process has the entry in its environment. That of
// a process that has ended is empty, that of another user cannot be read.
func hasEntry(folder string, entry []byte) bool {
	file, err := os.Open(filepath.Join(folder, "environ"))
	if err != nil {
		return false
	}
	defer file.Close() // it is only read
	data, err := io.ReadAll(io.LimitReader(file, maxEnvironment))
	if err != nil {
		return false
	}
	return bytes.Contains(append([]byte{0}, data...), entry)
}
