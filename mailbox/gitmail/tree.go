package gitmail

import (
	"bufio"
	"bytes"
	"context"
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

// An entry is what a tree has under a name. It is zero if there is nothing.
type entry struct{ mode, object string }

func (e entry) isFile() bool { return e.mode == regular }

// A store reads objects of the repository with one git process, and their sizes with another. Both start
// when they are needed.
type store struct {
	ctx          context.Context
	git          *git.Repository
	objects, ask *batch
	// trees are those that were read, by object.
	trees map[string]map[string]entry
}

func newStore(ctx context.Context, g *git.Repository) *store {
	return &store{ctx: ctx, git: g, trees: make(map[string]map[string]entry)}
}

// batch is a git cat-file that answers one question after the other.
type batch struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  bytes.Buffer
	// unread says that an answer was not read to its end.
	unread bool
}

func (s *store) open(b **batch, option string) (*batch, error) {
	if *b != nil {
		return *b, nil
	}
	opened := &batch{process: s.git.Command(s.ctx, "cat-file", option)}
	in, inErr := opened.process.StdinPipe()
	out, outErr := opened.process.StdoutPipe()
	opened.process.Stderr = &opened.stderr
	err := errors.Join(inErr, outErr)
	if err == nil {
		err = opened.process.Start()
	}
	if err != nil {
		return nil, git.Failure(s.ctx, err, []string{"cat-file"}, nil)
	}
	opened.in, opened.out, *b = in, bufio.NewReaderSize(out, 64<<10), opened
	return opened, nil
}

// head asks for an object, and returns its name, kind and size. The kind is "missing" if there is none.
func (s *store) head(b *batch, object string) (name, kind string, size int64, err error) {
	line := ""
	if _, err = io.WriteString(b.in, object+"\n"); err == nil {
		line, err = b.out.ReadString('\n')
	}
	if err != nil {
		b.unread = true
		return "", "", 0, s.failure(b, err)
	}
	fields := strings.Fields(line) // 1234567 blob 100, or 1234567 missing
	if len(fields) == 2 && fields[1] == "missing" {
		return object, "missing", 0, nil
	}
	if len(fields) == 3 {
		size, err = strconv.ParseInt(fields[2], 10, 64)
	}
	if len(fields) != 3 || err != nil {
		b.unread = true
		return "", "", 0, fmt.Errorf("git cat-file: %w: %.100q", errTree, line)
	}
	return fields[0], fields[1], size, nil
}

// failure returns why a process ended early.
func (s *store) failure(b *batch, err error) error {
	_ = b.in.Close()
	if ended := git.Failure(s.ctx, b.process.Wait(), []string{"cat-file"}, b.stderr.Bytes()); ended != nil {
		err = ended
	}
	s.forget(b)
	return err
}

func (s *store) forget(b *batch) {
	if s.objects == b {
		s.objects = nil
	}
	if s.ask == b {
		s.ask = nil
	}
}

// read returns the bytes of an object of a kind. A missing one is a *git.Error with the status damaged.
func (s *store) read(object, kind string, limit int64) (name string, data []byte, err error) {
	b, err := s.open(&s.objects, "--batch")
	if err != nil {
		return "", nil, err
	}
	name, found, size, err := s.head(b, object)
	switch {
	case err != nil:
		return "", nil, err
	case found == "missing":
		return "", nil, &git.Error{Args: []string{"cat-file"}, Exit: damaged, Stderr: "object " + object + " is missing"}
	case found != kind || size > limit:
		b.unread = true
		s.stop(b)
		return "", nil, fmt.Errorf("git cat-file: %w: %s is a %s of %d bytes", errTree, object, found, size)
	}
	data = make([]byte, size+1) // a line feed follows
	if _, err := io.ReadFull(b.out, data); err != nil {
		b.unread = true
		return "", nil, s.failure(b, err)
	}
	return name, data[:size], nil
}

// file returns the bytes of a file, if it is one and not too large.
func (s *store) file(object string) ([]byte, error) {
	b, err := s.open(&s.ask, "--batch-check")
	if err != nil {
		return nil, err
	}
	_, kind, size, err := s.head(b, object)
	switch {
	case err != nil:
		return nil, err
	case kind == "missing":
		return nil, &git.Error{Args: []string{"cat-file"}, Exit: damaged, Stderr: "object " + object + " is missing"}
	case kind != "blob":
		return nil, errRefused{errors.New("it is not a file")}
	case size > schema.MaxFileSize:
		return nil, errRefused{fmt.Errorf("%w: %d bytes of at most %d", durable.ErrTooLarge, size, int64(schema.MaxFileSize))}
	}
	_, data, err := s.read(object, "blob", schema.MaxFileSize)
	return data, err
}

// tree returns the entries of a tree. Names may hold anything but NUL.
func (s *store) tree(object string) (map[string]entry, error) {
	if tree, ok := s.trees[object]; ok || object == "" { // nothing has no tree
		return tree, nil
	}
	_, data, err := s.read(object, "tree", mostTree)
	if err != nil {
		return nil, err
	}
	raw := len(object) / 2 // the length of a name in bytes
	tree := make(map[string]entry)
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, isEntry := strings.Cut(string(head), " ")
		if !ok || !isEntry || len(rest) < raw {
			return nil, fmt.Errorf("git cat-file: %w: tree %s", errTree, object)
		}
		tree[name] = entry{mode, fmt.Sprintf("%x", rest[:raw])}
		data = rest[raw:]
	}
	s.trees[object] = tree
	return tree, nil
}

// close ends the processes.
func (s *store) close() {
	for _, b := range []*batch{s.objects, s.ask} {
		if b != nil {
			s.stop(b)
		}
	}
}

func (s *store) stop(b *batch) {
	_ = b.in.Close()
	if b.unread {
		_ = b.process.Cancel() // it waits for somebody to read the rest
	}
	_ = b.process.Wait() // what it said was read before
	s.forget(b)
}

// A view is the tree of a commit. Folders are read when they are needed.
type view struct {
	*store
	commit, root string
	// epochs and lists hold what files say that the states of messages need.
	lists map[string]map[string]int
}

// view returns the tree of a commit; an empty one if there is none.
func (s *store) view(commit string) (*view, error) {
	v := &view{store: s, commit: commit, lists: make(map[string]map[string]int)}
	if commit == "" {
		return v, nil
	}
	_, data, err := s.read(commit, "commit", mostTree)
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
func (v *view) entry(path string) (entry, error) {
	at := entry{folder, v.root}
	if path == "" {
		return at, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if at.mode != folder {
			return entry{}, nil
		}
		tree, err := v.tree(at.object)
		if err != nil {
			return entry{}, err
		}
		at = tree[name]
	}
	return at, nil
}

// folder returns the object and the entries of a folder. They are empty if it is none.
func (v *view) folder(path string) (string, map[string]entry, error) {
	at, err := v.entry(path)
	if err != nil || at.mode != folder {
		return "", nil, err
	}
	tree, err := v.tree(at.object)
	return at.object, tree, err
}

// number returns the number in a file, such as that of an epoch; 0 if there is none.
func (v *view) number(path string) (int, error) {
	const most = 1 << 20
	at, err := v.entry(path)
	if err != nil || !at.isFile() {
		return 0, err
	}
	data, err := v.file(at.object)
	if refused, ok := errors.AsType[errRefused](err); ok {
		return 0, refused
	}
	n, parseErr := strconv.Atoi(strings.TrimSpace(string(data)))
	if err == nil && len(data) > 0 && (parseErr != nil || n < 0 || n > most) {
		return 0, errRefused{fmt.Errorf("it holds no number of at most %d", most)}
	}
	return n, err
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
