package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"strconv"
	"strings"
)

// Fatal is the exit status of git for most errors, such as an object that is missing.
const Fatal = 128

const (
	// Regular is the mode of a file that is neither executable nor a link.
	Regular = "100644"
	folder  = "40000"
	// largest bounds the size of a tree or a commit in bytes.
	largest = 256 << 20
)

// errOutput says that this package cannot read what git printed.
var errOutput = errors.New("unexpected output")

// UnwantedError says that an object has another kind than the caller wants, or is too large.
type UnwantedError string

func (e UnwantedError) Error() string { return string(e) }

// An Entry is what a tree has under a name: the mode, and the name of the object. It is zero if there is nothing.
type Entry struct{ Mode, Object string }

// IsFile reports whether the entry is a regular file that is not executable.
func (e Entry) IsFile() bool { return e.Mode == Regular }

// IsFolder reports whether the entry is a tree.
func (e Entry) IsFolder() bool { return e.Mode == folder }

// Folder returns the entry of a tree.
func Folder(object string) Entry { return Entry{folder, object} }

// Objects reads objects of a repository with one git process, which starts when it is needed. It caches trees. Only one
// goroutine may use it at a time.
type Objects struct {
	ctx     context.Context
	r       *Repository
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *bytes.Buffer
	trees   map[string]map[string]Entry
}

// Objects returns a reader. The caller must close it.
func (r *Repository) Objects(ctx context.Context) *Objects {
	return &Objects{ctx: ctx, r: r, trees: make(map[string]map[string]Entry)}
}

func (o *Objects) start() error {
	if o.process != nil {
		return nil
	}
	process := o.r.command(o.ctx, "cat-file", "--batch")
	in, inErr := process.StdinPipe()
	out, outErr := process.StdoutPipe()
	o.stderr = new(bytes.Buffer)
	process.Stderr = o.stderr
	err := errors.Join(inErr, outErr)
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return errorOf(o.ctx, err, []string{"cat-file"}, nil)
	}
	o.process, o.in, o.out = process, in, bufio.NewReaderSize(out, 64<<10)
	return nil
}

// end ends the process and returns its error. A process that still writes an object ends only with cancel.
func (o *Objects) end(cancel bool) error {
	process := o.process
	o.process = nil
	_ = o.in.Close()
	if cancel {
		_ = process.Cancel()
	}
	return process.Wait()
}

// failure returns why the process ended early.
func (o *Objects) failure(err error) error {
	if ended := errorOf(o.ctx, o.end(true), []string{"cat-file"}, o.stderr.Bytes()); ended != nil {
		return ended
	}
	return err
}

// Close ends the process.
func (o *Objects) Close() {
	if o.process != nil {
		_ = o.end(false) // everything was read before
	}
}

// Read returns the bytes of an object of a kind, such as blob, with at most limit bytes. The error is an UnwantedError if
// the object has another kind or is larger, and an *Error with the status Fatal if it is missing.
func (o *Objects) Read(name, kind string, limit int64) ([]byte, error) {
	if strings.Contains(name, "\n") {
		return nil, UnwantedError(fmt.Sprintf("%.100q is not the name of an object", name))
	}
	if err := o.start(); err != nil {
		return nil, err
	}
	line := ""
	_, err := io.WriteString(o.in, name+"\n")
	if err == nil {
		line, err = o.out.ReadString('\n')
	}
	if err != nil {
		return nil, o.failure(err)
	}
	fields, size := strings.Fields(line), int64(0) // 1234567 blob 100, or 1234567 missing
	if len(fields) == 3 {
		size, err = strconv.ParseInt(fields[2], 10, 64)
	}
	switch {
	case strings.HasSuffix(line, " missing\n"): // a name may have spaces
		return nil, &Error{Args: []string{"cat-file"}, Exit: Fatal, Stderr: "object " + name + " is missing"}
	case len(fields) != 3 || err != nil:
		err = fmt.Errorf("git cat-file: %w: %.100q", errOutput, line)
	case fields[1] != kind:
		err = UnwantedError("it is a " + fields[1] + ", not a " + kind)
	case size > limit:
		err = UnwantedError(fmt.Sprintf("it has %d bytes of at most %d", size, limit))
	}
	if _, unwanted := errors.AsType[UnwantedError](err); unwanted && size <= 1<<20 {
		_, skipErr := o.out.Discard(int(size) + 1) // which is faster than another process
		return nil, cmp.Or(skipErr, err)
	}
	if err != nil {
		_ = o.end(true)
		return nil, err
	}
	data := make([]byte, size+1) // a line feed follows
	if _, err := io.ReadFull(o.out, data); err != nil {
		return nil, o.failure(err)
	}
	return data[:size], nil
}

// Tree returns the entries of a tree. Their names may hold anything but NUL. Of several entries with one name, it returns
// the first, which is the one that Import changes. The caller must not change the map.
func (o *Objects) Tree(name string) (map[string]Entry, error) {
	if tree, ok := o.trees[name]; ok {
		return tree, nil
	}
	data, err := o.Read(name, "tree", largest)
	if err != nil {
		return nil, err
	}
	tree, raw := make(map[string]Entry), len(name)/2 // the length of the name of an object in bytes
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, file, isEntry := strings.Cut(string(head), " ")
		if !ok || !isEntry || len(rest) < raw {
			return nil, fmt.Errorf("git cat-file: %w: tree %s", errOutput, name)
		}
		if _, again := tree[file]; !again {
			tree[file] = Entry{mode, hex.EncodeToString(rest[:raw])}
		}
		data = rest[raw:]
	}
	o.trees[name] = tree
	return tree, nil
}

// Root returns the tree of a commit.
func (o *Objects) Root(commit string) (tree string, err error) {
	data, err := o.Read(commit, "commit", largest)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	tree, ok := strings.CutPrefix(line, "tree ")
	if !ok {
		return "", fmt.Errorf("git cat-file: %w: commit %s", errOutput, commit)
	}
	return tree, nil
}

// Records returns the records that git prints with -z.
func Records(out []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for record := range strings.SplitAfterSeq(string(out), "\x00") {
			if record != "" && !yield(strings.TrimSuffix(record, "\x00")) {
				return
			}
		}
	}
}
