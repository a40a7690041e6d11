package gitmail

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
)

// regular is the mode of the only kind of file that is taken from a tree.
const regular = "100644"

// emptyTrees are the names of the tree without files, by the length of names.
var emptyTrees = [...]string{
	"4b825dc642cb6eb9a060e54bf8d69288fbee4904",
	"6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}

func emptyTree(like string) string {
	for _, tree := range emptyTrees {
		if len(tree) == len(like) {
			return tree
		}
	}
	return emptyTrees[0]
}

// difference is one path that differs between two trees.
type difference struct {
	// status is A for added, D for deleted, M for modified or T for another type.
	status byte
	path   string
	// mode and object are those of the new file.
	mode, object string
}

// diff returns how the tip differs from the base. Without a base, or with one that is damaged, it
// returns all files of the tip.
func (e *exchange) diff(ctx context.Context) ([]difference, error) {
	out, err := []byte(nil), error(&git.Error{Exit: damaged})
	if e.base != "" {
		out, err = e.r.git.Run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-commit-id", e.base, e.tip)
	}
	if git.Exit(err) == damaged {
		e.base = ""
		out, err = e.r.git.Run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-commit-id", emptyTree(e.tip), e.tip)
	}
	if err != nil {
		return nil, err
	}
	fields := slices.Collect(records(out))
	var all []difference
	for i := 0; i+1 < len(fields); i += 2 {
		// :000000 100644 0000000 1234567 A
		meta := strings.Fields(fields[i])
		if len(meta) != 5 || len(meta[4]) != 1 {
			return nil, fmt.Errorf("git diff-tree: %w: %.100q", errTree, fields[i])
		}
		all = append(all, difference{status: meta[4][0], path: fields[i+1], mode: meta[1], object: meta[3]})
	}
	return all, nil
}

// damaged is the exit status of git for an object that is missing or cannot be read.
const damaged = 128

// list calls visit for each entry of the paths in the tip's tree: for that of the path itself, or with
// recursive for all files below.
func (e *exchange) list(ctx context.Context, recursive bool, paths []string, visit func(path, kind, object string)) error {
	if e.tip == "" || len(paths) == 0 {
		return nil
	}
	var args []string
	if recursive {
		args = append(args, "-r")
	}
	return e.r.listTree(ctx, 3, append(append(args, e.tip, "--"), paths...), func(path string, fields []string) {
		visit(path, fields[1], fields[2])
	})
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

// sizes returns the sizes of those objects that are files, in bytes.
func (r *Repository) sizes(ctx context.Context, objects []string) (map[string]int64, error) {
	out, err := r.git.RunInput(ctx, strings.NewReader(strings.Join(objects, "\n")+"\n"), "cat-file", "--batch-check")
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64, len(objects))
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line) // 1234567 blob 100, or 1234567 missing
		if len(fields) != 3 || fields[1] != "blob" {
			continue
		}
		if sizes[fields[0]], err = strconv.ParseInt(fields[2], 10, 64); err != nil {
			return nil, fmt.Errorf("git cat-file: %w: %.100q", errTree, line)
		}
	}
	return sizes, nil
}

// reader reads files of the repository, one after the other, with one git process.
type reader struct {
	ctx     context.Context
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	// sizes are those of the files that take reads.
	sizes map[string]int64
	// unread says that an object was not read to its end.
	unread bool
}

func (r *Repository) openReader(ctx context.Context) (*reader, error) {
	process := r.git.Command(ctx, "cat-file", "--batch")
	in, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return nil, git.Failure(ctx, err, []string{"cat-file"}, nil)
	}
	return &reader{ctx: ctx, process: process, in: in, out: bufio.NewReader(out)}, nil
}

// read returns the bytes of an object of at most schema.MaxFileSize. After an error the reader can only be
// closed.
func (r *reader) read(object string) (data []byte, err error) {
	defer func() { r.unread = err != nil }()
	if _, err := io.WriteString(r.in, object+"\n"); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	head, err := r.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	fields := strings.Fields(head) // 1234567 blob 100
	if len(fields) != 3 {
		return nil, fmt.Errorf("git cat-file: %w: %.100q", errTree, head)
	}
	size, err := strconv.Atoi(fields[2])
	if err != nil || size > schema.MaxFileSize {
		return nil, fmt.Errorf("git cat-file: %w: %.100q", errTree, head)
	}
	data = make([]byte, size+1) // a line feed follows
	if _, err := io.ReadFull(r.out, data); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return data[:size], nil
}

// close ends the process, if there is one.
func (r *reader) close() error {
	if r == nil {
		return nil
	}
	_ = r.in.Close() // it fails if the process has ended, which Wait says
	if r.unread {
		_ = r.process.Cancel() // it waits for somebody to read the rest
		_ = r.process.Wait()   // read returned the error
		return nil
	}
	return git.Failure(r.ctx, r.process.Wait(), []string{"cat-file"}, nil)
}
