package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Recorder records what programs do to a folder.
type Recorder struct {
	Recording
	folder string
	// disk is what the folder holds now, and nodes the number of nodes so far.
	disk  *Disk
	nodes Node
}

// Command is a program to run.
type Command struct {
	// Args begin with the path of the program.
	Args []string
	Dir  string
	Env  []string
	// Input is what it reads from standard input.
	Input string
	// KillBefore, if not 0, kills the program and all that it started before its change of that number, counted from 1.
	KillBefore int
}

// Result is what became of a Command.
type Result struct {
	Output string
	// Exit is the exit status, or -1 after a signal.
	Exit int
}

// NewRecorder starts a recording of a folder. It skips the test where programs cannot be traced.
func NewRecorder(t testing.TB, folder string) *Recorder {
	t.Helper()
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		t.Fatal(err)
	}
	disk, err := ReadDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	nodes := Node(len(disk.folders) + len(disk.files))
	return &Recorder{Recording{Before: disk.clone()}, folder, disk, nodes}
}

// Run runs a program to its end and adds its operations to the recording.
func (r *Recorder) Run(t testing.TB, c Command) Result {
	t.Helper()
	var result Result
	var err error
	onThread(func() { result, err = r.trace(c) })
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("this machine does not let a program trace another: %v", err)
	}
	if err != nil {
		t.Fatalf("recording %q: %v", c.Args, err)
	}
	r.Ends, r.After = append(r.Ends, len(r.Operations)), append(r.After, r.disk.clone())
	there, err := ReadDisk(r.folder)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.disk.Files(), there.Files(); !maps.Equal(got, want) {
		for name := range want {
			if text, ok := got[name]; !ok || text != want[name] {
				t.Errorf("%q: a change of %s was not recorded", c.Args, name)
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Errorf("%q: the removal of %s was not recorded", c.Args, name)
			}
		}
		t.FailNow()
	}
	return result
}

// record adds what a call did to the recording.
func (t *tracer) record(c call) error {
	switch c.kind {
	case opens, makesFolder:
		if _, there := t.disk.find(c.path); !there {
			return t.add(c.path)
		}
		return t.write(c.path)
	case links:
		node, _ := t.disk.find(c.path)
		return t.do(Operation{Kind: Add, Node: node, To: t.entry(c.to), Path: c.to})
	case moves:
		node, _ := t.disk.find(c.path)
		return t.do(Operation{Kind: Move, Node: node, From: t.entry(c.path), To: t.entry(c.to), Path: c.path})
	case removes:
		node, _ := t.disk.find(c.path)
		return t.do(Operation{Kind: Remove, Node: node, From: t.entry(c.path), Path: c.path})
	case writes:
		return t.write(c.path)
	case syncs:
		node, ok := t.disk.find(c.path)
		if !ok {
			return fmt.Errorf("sync %s: it is not recorded", c.path)
		}
		return t.do(Operation{Kind: Sync, Node: node, Path: c.path})
	}
	for _, node := range slices.Concat(slices.Sorted(maps.Keys(t.disk.files)), slices.Sorted(maps.Keys(t.disk.folders))) {
		if err := t.do(Operation{Kind: Sync, Node: node, Path: "everything"}); err != nil {
			return err
		}
	}
	return nil
}

func (t *tracer) do(o Operation) error {
	for _, entry := range []Entry{o.From, o.To} {
		if _, ok := t.disk.folders[entry.Folder]; !ok {
			return fmt.Errorf("%s: its folder is not recorded", o)
		}
	}
	t.disk.apply(o)
	t.Operations = append(t.Operations, o)
	return nil
}

func (t *tracer) entry(name string) Entry {
	folder, ok := t.disk.find(path.Dir(name))
	if !ok {
		folder = -1
	}
	return Entry{folder, path.Base(name)}
}

// add records what is new at a path.
func (t *tracer) add(name string) error {
	full := filepath.Join(t.folder, name)
	info, err := os.Lstat(full)
	if err != nil {
		return err
	}
	o := Operation{Kind: Add, Node: t.nodes, To: t.entry(name), Path: name, IsFolder: info.IsDir()}
	if o.IsLink = info.Mode()&os.ModeSymlink != 0; o.IsLink {
		target, err := os.Readlink(full)
		if err != nil {
			return err
		}
		o.Data = []byte(target)
	}
	t.nodes++
	return t.do(o)
}

// write records the bytes that a file has now, if they changed.
func (t *tracer) write(name string) error {
	node, ok := t.disk.find(name)
	if !ok {
		return fmt.Errorf("write %s: the file is not recorded", name)
	}
	data, err := os.ReadFile(filepath.Join(t.folder, name))
	if err != nil || bytes.Equal(data, t.disk.files[node]) {
		return err
	}
	return t.do(Operation{Kind: Write, Node: node, Data: data, Path: name})
}
