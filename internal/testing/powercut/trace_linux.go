package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tracer follows the threads of a program and of those that it starts.
type tracer struct {
	*Recorder
	command Command
	changes int
	// changing is the thread that is in a system call that changes the folder, 0 for none, and call that call. Threads that
	// want to begin another one wait.
	changing int
	call     call
	waiting  []int
	threads  map[int]bool
}

// work is done on one thread, one piece at a time, until the tests end. Linux traces by thread, and lets a thread wait for all
// that it started: this one must never have started anything else, and others would take it for theirs.
var work = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for do := range work {
			do()
		}
	}()
}

// onThread calls f on the thread of work.
func onThread(f func()) {
	done := make(chan struct{})
	work <- func() {
		f()
		close(done)
	}
	<-done
}

// trace runs the program, on the thread of work.
func (r *Recorder) trace(c Command) (result Result, err error) {
	input, output, err := streams(c.Input)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, input.Close(), output.Close()) }()
	pid, err := syscall.ForkExec(c.Args[0], c.Args, &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: []uintptr{input.Fd(), output.Fd(), output.Fd()},
		Sys: &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return result, err
	}
	t := &tracer{Recorder: r, command: c, threads: map[int]bool{pid: true}}
	if result.Exit, err = t.follow(pid); err != nil {
		return result, err
	}
	text := make([]byte, 1<<20)
	n, _ := output.ReadAt(text, 0) // it ends with io.EOF
	result.Output = string(text[:n])
	return result, nil
}

func streams(text string) (input, output *os.File, err error) {
	for _, file := range []**os.File{&input, &output} {
		fd, err := unix.MemfdCreate("stream", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, nil, err
		}
		*file = os.NewFile(uintptr(fd), "stream")
	}
	_, err = input.WriteAt([]byte(text), 0)
	return input, output, err
}

const traceOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACECLONE |
	unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC

// follow returns the exit status of the process. It waits for all that the process started.
func (t *tracer) follow(pid int) (exit int, err error) {
	exit = -1
	var status unix.WaitStatus
	if _, err := wait(pid, &status); err != nil {
		return exit, err
	}
	if err := errors.Join(unix.PtraceSetOptions(pid, traceOptions), unix.PtraceSyscall(pid, 0)); err != nil {
		return exit, err
	}
	for len(t.threads) > 0 {
		thread, err := wait(-1, &status)
		if err != nil {
			return exit, err
		}
		if status.Exited() || status.Signaled() {
			if thread == pid && status.Exited() {
				exit = status.ExitStatus()
			}
			delete(t.threads, thread)
			if thread == t.changing {
				t.changing = 0
				t.release()
			}
			continue
		}
		t.threads[thread] = true
		if err := t.stopped(thread, status); err != nil && !errors.Is(err, unix.ESRCH) { // it was killed meanwhile
			t.kill()
			return exit, err
		}
	}
	return exit, nil
}

// wait waits for a child of this thread, and not for those of other tests.
func wait(pid int, status *unix.WaitStatus) (int, error) {
	for {
		thread, err := unix.Wait4(pid, status, unix.WALL|unix.WNOTHREAD, nil)
		if !errors.Is(err, unix.EINTR) {
			return thread, err
		}
	}
}

// stopped handles a thread that stopped, and lets it go on unless it has to wait.
func (t *tracer) stopped(thread int, status unix.WaitStatus) error {
	switch signal := status.StopSignal(); signal {
	case unix.SIGTRAP | 0x80: // a system call begins or ends
		return t.atCall(thread)
	case unix.SIGTRAP, unix.SIGSTOP: // a new thread, process or program
		return unix.PtraceSyscall(thread, 0)
	default:
		return unix.PtraceSyscall(thread, int(signal))
	}
}

// syscallInfo is what PTRACE_GET_SYSCALL_INFO returns, struct ptrace_syscall_info of Linux.
type syscallInfo struct {
	Op     uint8
	_      [3]uint8
	Arch   uint32
	IP, SP uint64
	// Number is that of the call when it begins, and its result when it ends.
	Number uint64
	Args   [6]uint64
	_      uint64
}

const (
	callBegins = 1
	callEnds   = 2
)

func (t *tracer) atCall(thread int) error {
	var info syscallInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(thread),
		unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return errno
	}
	switch {
	case info.Op == callEnds && thread == t.changing:
		t.changing = 0
		if int64(info.Number) >= 0 {
			if err := t.record(t.call); err != nil {
				return err
			}
		}
		t.release()
	case info.Op == callBegins:
		c, changes := t.read(thread, info)
		if !changes {
			break
		}
		if t.changing != 0 {
			t.waiting = append(t.waiting, thread) // and read the call again then: a rename may change its paths
			return nil
		}
		t.changes++
		if t.changes == t.command.KillBefore {
			t.kill()
			return nil
		}
		t.changing, t.call = thread, c
	}
	return unix.PtraceSyscall(thread, 0)
}

// release lets the next waiting thread begin its call.
func (t *tracer) release() {
	for len(t.waiting) > 0 && t.changing == 0 {
		thread := t.waiting[0]
		t.waiting = t.waiting[1:]
		_ = t.atCall(thread) // a thread that is gone is reported by wait
	}
}

func (t *tracer) kill() {
	for thread := range t.threads {
		_ = unix.Kill(thread, unix.SIGKILL) // one that ended is reported by wait
	}
}

// call is a system call that may change the folder. Its paths are below the folder.
type call struct {
	kind     callKind
	path, to string
}

type callKind int

const (
	opens callKind = iota + 1
	makesFolder
	links
	moves
	removes
	writes
	syncs
	syncsAll
)

// A signature says where a system call has its folder and path, for each path; a negative folder is the current one. Calls
// on an open file have it in args[0].
type signature struct {
	kind  callKind
	paths [][2]int
}

var signatures = map[uint64]signature{
	unix.SYS_OPENAT:          {opens, [][2]int{{0, 1}}},
	unix.SYS_MKDIRAT:         {makesFolder, [][2]int{{0, 1}}},
	unix.SYS_SYMLINKAT:       {opens, [][2]int{{1, 2}}},
	unix.SYS_LINKAT:          {links, [][2]int{{0, 1}, {2, 3}}},
	unix.SYS_RENAMEAT:        {moves, [][2]int{{0, 1}, {2, 3}}},
	unix.SYS_RENAMEAT2:       {moves, [][2]int{{0, 1}, {2, 3}}},
	unix.SYS_UNLINKAT:        {removes, [][2]int{{0, 1}}},
	unix.SYS_TRUNCATE:        {writes, [][2]int{{-1, 0}}},
	unix.SYS_WRITE:           {writes, nil},
	unix.SYS_PWRITE64:        {writes, nil},
	unix.SYS_WRITEV:          {writes, nil},
	unix.SYS_PWRITEV:         {writes, nil},
	unix.SYS_FTRUNCATE:       {writes, nil},
	unix.SYS_FALLOCATE:       {writes, nil},
	unix.SYS_FSYNC:           {syncs, nil},
	unix.SYS_FDATASYNC:       {syncs, nil},
	unix.SYS_SYNC:            {syncsAll, nil},
	unix.SYS_SENDFILE:        {writes, nil},
	unix.SYS_COPY_FILE_RANGE: {writes, nil}, // its target is args[2]
}

// read reads the call that a thread begins, and reports whether it may change the folder.
func (t *tracer) read(thread int, info syscallInfo) (c call, changes bool) {
	s, known := signatures[info.Number]
	if !known {
		return c, false
	}
	c.kind = s.kind
	args := info.Args
	switch {
	case s.kind == opens && info.Number == unix.SYS_OPENAT && args[2]&(unix.O_CREAT|unix.O_TRUNC) == 0:
		return c, false
	case s.kind == syncsAll:
		return c, true
	case s.paths == nil:
		fd := args[0]
		if info.Number == unix.SYS_COPY_FILE_RANGE {
			fd = args[2]
		}
		return c, t.below(&c.path, link(thread, fmt.Sprintf("fd/%d", int32(fd))))
	}
	found := []*string{&c.path, &c.to}
	for i, place := range s.paths {
		folder := int32(unix.AT_FDCWD)
		if place[0] >= 0 {
			folder = int32(args[place[0]])
		}
		if !t.below(found[i], resolve(thread, folder, args[place[1]])) {
			return c, false
		}
	}
	return c, true
}

// below sets the path below the recorded folder, and reports whether it is there.
func (t *tracer) below(name *string, full string) bool {
	rest, ok := strings.CutPrefix(full, t.folder)
	if !ok || rest != "" && rest[0] != '/' || strings.HasSuffix(full, " (deleted)") {
		return false
	}
	*name = path.Clean(strings.TrimPrefix(rest, "/"))
	return true
}

// link returns where a link of the thread in /proc leads, or "".
func link(thread int, name string) string {
	target, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", thread, name)) // the call fails on its own
	return target
}

func resolve(thread int, folder int32, address uint64) string {
	name := text(thread, address)
	if filepath.IsAbs(name) {
		folder = unix.AT_FDCWD
	} else if folder == unix.AT_FDCWD {
		name = filepath.Join(link(thread, "cwd"), name)
	} else {
		name = filepath.Join(link(thread, fmt.Sprintf("fd/%d", folder)), name)
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil {
		return filepath.Join(parent, filepath.Base(name))
	}
	return name
}

// text reads a string of the thread.
func text(thread int, address uint64) string {
	var found []byte
	for len(found) < unix.PathMax {
		var word [8]byte
		if _, err := unix.PtracePeekData(thread, uintptr(address)+uintptr(len(found)), word[:]); err != nil {
			return ""
		}
		if end := bytes.IndexByte(word[:], 0); end >= 0 {
			return string(append(found, word[:end]...))
		}
		found = append(found, word[:]...)
	}
	return ""
}
