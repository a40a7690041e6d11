package gitmail

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

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
)

const (
	// regular is the mode of the only kind of file that is taken from a tree, and folder that of a tree.
	regular = "100644"
	folder  = "40000"
	// damaged is the exit status of git for an object that is missing or cannot be read.
	damaged = 128
	// mostTree bounds the size of a tree in bytes.
	mostTree = 256 << 20
)

var errTree = errors.New("git printed something that cannot be read")

// errRefused says that a file of a tree is not taken.
type errRefused struct{ error }

// isRefused reports whether a file of a tree is not taken. All other errors of reading trees are git's.
func isRefused(err error) bool {
	_, refused := errors.AsType[errRefused](err)
	return refused
}

// An entry is what a tree has under a name. It is zero if there is nothing.
type entry struct{ mode, object string }

func (e entry) isFile() bool { return e.mode == regular }

// A store reads objects of the repository with one git process, which starts when it is needed.
type store struct {
	ctx     context.Context
	git     *git.Repository
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  *bytes.Buffer
	// known are the trees that were read, by object.
	known map[string]map[string]entry
	// failed is the first error of git in reading trees, which then are empty: what was decided from them is void.
	failed error
}

func newStore(ctx context.Context, g *git.Repository) *store {
	return &store{ctx: ctx, git: g, known: make(map[string]map[string]entry)}
}

func (s *store) start() error {
	if s.process != nil {
		return nil
	}
	process := s.git.Command(s.ctx, "cat-file", "--batch")
	in, inErr := process.StdinPipe()
	out, outErr := process.StdoutPipe()
	s.stderr = new(bytes.Buffer)
	process.Stderr = s.stderr
	err := errors.Join(inErr, outErr)
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return git.Failure(s.ctx, err, []string{"cat-file"}, nil)
	}
	s.process, s.in, s.out = process, in, bufio.NewReaderSize(out, 64<<10)
	return nil
}

// end ends the process, which may wait for somebody to read the rest of an object, and returns its error.
func (s *store) end(cancel bool) error {
	process := s.process
	s.process = nil
	_ = s.in.Close()
	if cancel {
		_ = process.Cancel()
	}
	return process.Wait()
}

// failure returns why the process ended early.
func (s *store) failure(err error) error {
	if ended := git.Failure(s.ctx, s.end(true), []string{"cat-file"}, s.stderr.Bytes()); ended != nil {
		return ended
	}
	return err
}

func (s *store) close() {
	if s.process != nil {
		_ = s.end(false) // what it said was read before
	}
}

// read returns the bytes of an object. The error matches errRefused for one of another kind or a larger one; a
// missing one is a *git.Error with the status damaged.
func (s *store) read(object, kind string, limit int64) ([]byte, error) {
	if err := s.start(); err != nil {
		return nil, err
	}
	line := ""
	_, err := io.WriteString(s.in, object+"\n")
	if err == nil {
		line, err = s.out.ReadString('\n')
	}
	if err != nil {
		return nil, s.failure(err)
	}
	fields, size := strings.Fields(line), int64(0) // 1234567 blob 100, or 1234567 missing
	if len(fields) == 3 {
		size, err = strconv.ParseInt(fields[2], 10, 64)
	}
	switch {
	case len(fields) == 2 && fields[1] == "missing":
		return nil, &git.Error{Args: []string{"cat-file"}, Exit: damaged, Stderr: "object " + object + " is missing"}
	case len(fields) != 3 || err != nil:
		err = fmt.Errorf("git cat-file: %w: %.100q", errTree, line)
	case fields[1] != kind:
		err = errRefused{fmt.Errorf("it is a %s, not a %s", fields[1], kind)}
	case size > limit:
		err = errRefused{fmt.Errorf("%w: %d bytes of at most %d", durable.ErrTooLarge, size, limit)}
	}
	if err != nil {
		_ = s.end(true)
		return nil, err
	}
	data := make([]byte, size+1) // a line feed follows
	if _, err := io.ReadFull(s.out, data); err != nil {
		return nil, s.failure(err)
	}
	return data[:size], nil
}

// file returns the bytes of a file, if it is one and not too large.
func (s *store) file(object string) ([]byte, error) {
	return s.read(object, "blob", schema.MaxFileSize)
}

// fail notes an error of git.
func (s *store) fail(err error) { s.failed = cmp.Or(s.failed, err) }

// text returns what a file holds; nothing if it is none or too large.
func (s *store) text(at entry) string {
	if !at.isFile() || s.failed != nil {
		return ""
	}
	data, err := s.file(at.object)
	if err != nil && !isRefused(err) {
		s.fail(err)
	}
	return strings.TrimSpace(string(data))
}

// tree returns the entries of a tree. Names may hold anything but NUL.
func (s *store) tree(at entry) map[string]entry {
	tree, ok := s.known[at.object]
	if ok || at.mode != folder || at.object == "" || s.failed != nil { // nothing has no tree
		return tree
	}
	data, err := s.read(at.object, "tree", mostTree)
	raw := len(at.object) / 2 // the length of a name in bytes
	tree = make(map[string]entry)
	for len(data) > 0 && err == nil {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, isEntry := strings.Cut(string(head), " ")
		if !ok || !isEntry || len(rest) < raw {
			err = fmt.Errorf("git cat-file: %w: tree %s", errTree, at.object)
			break
		}
		tree[name] = entry{mode, hex.EncodeToString(rest[:raw])}
		data = rest[raw:]
	}
	if err != nil {
		s.fail(err)
		return nil
	}
	s.known[at.object] = tree
	return tree
}

// A view is the tree of a commit. Folders are read when they are needed.
type view struct {
	*store
	commit, root string
	// lists are the lists of pruned messages that were read.
	lists map[string]map[string]int
}

// view returns the tree of a commit; an empty one if there is none.
func (s *store) view(commit string) (*view, error) {
	v := &view{store: s, commit: commit, lists: make(map[string]map[string]int)}
	if commit == "" {
		return v, nil
	}
	data, err := s.read(commit, "commit", mostTree)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	root, ok := strings.CutPrefix(line, "tree ")
	if !ok {
		return nil, fmt.Errorf("git cat-file: %w: commit %s", errTree, commit)
	}
	v.root = root
	return v, nil
}

// entry returns what is at a path.
func (v *view) entry(path string) entry {
	at := entry{folder, v.root}
	for name := range strings.SplitSeq(path, "/") {
		at = v.tree(at)[name]
	}
	return at
}

// folder returns the entries of a folder. There are none if it is no folder.
func (v *view) folder(path string) map[string]entry { return v.tree(v.entry(path)) }

// number returns the number in a file, such as that of an epoch; 0 if there is none.
func (v *view) number(path string) int {
	const most = 1 << 20
	n, err := strconv.Atoi(v.text(v.entry(path)))
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}

// listTree runs git ls-tree, and calls visit for each entry with its path and the other fields: the mode,
// the kind, the object and, with --long, the size.
func (r *Repository) listTree(ctx context.Context, fields int, args []string, visit func(path string, fields []string)) error {
	out, err := r.git.Run(ctx, append([]string{"ls-tree", "-z", "--full-tree"}, args...)...)
	if err != nil {
		return err
	}
	for record := range records(out) {
		meta, path, _ := strings.Cut(record, "\t")
		found := strings.Fields(meta) // 100644 blob 1234567
		if len(found) != fields {
			return fmt.Errorf("git ls-tree: %w: %.100q", errTree, record)
		}
		visit(path, found)
	}
	return nil
}

// records returns the records that git prints with -z.
func records(out []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for record := range strings.SplitAfterSeq(string(out), "\x00") {
			if record != "" && !yield(strings.TrimSuffix(record, "\x00")) {
				return
			}
		}
	}
}
