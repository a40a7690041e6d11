package validate

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// FilesOptions are the options of Files. Nil means the zero value.
type FilesOptions struct {
	// Stdin is read for the path "-". If it is nil, that path is an error.
	Stdin io.Reader
	// Contract, if set, is called for the message in each file, from several goroutines. It returns a
	// function that checks the body against the schemas of the workspace, or nil if there are none. An
	// error of that function ends the validation.
	Contract func(file string, m *schema.Message) func(context.Context) ([]Objection, error)
}

// A File is one validated file with its diagnostics.
type File struct {
	// Name is the path as given or found, or <stdin> for "-".
	Name        string
	Diagnostics Diagnostics
}

// A Result holds the files in the order of the paths and, within a folder, of the names.
type Result struct{ Files []File }

// Diagnostics returns the diagnostics of all files.
func (r *Result) Diagnostics() Diagnostics {
	var all Diagnostics
	for i := range r.Files {
		all = append(all, r.Files[i].Diagnostics...)
	}
	return all
}

// HasErrors reports whether any file is invalid or could not be read.
func (r *Result) HasErrors() bool {
	return slices.ContainsFunc(r.Files, func(f File) bool { return f.Diagnostics.HasErrors() })
}

// Files validates files, the messages in and below folders, and standard input for "-", on all cores. A
// path that does not lead to a file gets a diagnostic. In a workspace only files in mailboxes are messages,
// but a named file always counts as one.
//
// A named path may be a link to anywhere. A link found in a folder gets a diagnostic, and Files does not
// read its target.
//
// Files reports what Bytes reports, and ids that are not unique: files with the same id and different
// content, and two files in one folder with the same message. The copies of a message in different
// folders, which delivery makes, are not duplicates.
//
// Files returns an error only if the context ends or Contract fails.
func Files(ctx context.Context, paths []string, options *FilesOptions) (*Result, error) {
	if options == nil {
		options = &FilesOptions{}
	}
	run := fileRun{targets: walk(paths), options: options, seed: maphash.MakeSeed()}
	run.files = make([]File, len(run.targets))
	run.ids = make([]fileID, len(run.targets))
	run.workers, ctx = errgroup.WithContext(ctx)
	for range min(runtime.GOMAXPROCS(0), len(run.targets)) {
		run.workers.Go(func() error { return run.work(ctx) })
	}
	if err := run.workers.Wait(); err != nil {
		return nil, err
	}
	run.reportDuplicates()
	return &Result{Files: run.files}, nil
}

// A fileRun is one call of Files.
type fileRun struct {
	targets []target
	options *FilesOptions
	seed    maphash.Seed
	next    atomic.Int64

	workers *errgroup.Group

	// files and ids have an element for each target, written only by the worker that checks it.
	files []File
	ids   []fileID
}

// A fileID holds the parts of a file that the search for duplicate ids compares.
type fileID struct {
	id           schema.ID
	line, column int32
	digest       uint64
}

// firstBuffer is the size of the buffer for files, large enough for ordinary ones.
const firstBuffer = 16 << 10

// work validates targets until there are no more or the context ends.
func (r *fileRun) work(ctx context.Context) error {
	from := reader{stdin: r.options.Stdin}
	defer from.close()
	in := new(inspection)
	buffer := make([]byte, 0, firstBuffer)
	for ctx.Err() == nil {
		i := int(r.next.Add(1)) - 1
		if i >= len(r.targets) {
			break
		}
		var err error
		if buffer, err = r.check(ctx, i, &from, in, buffer[:0]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// check validates the target with the given index and returns the buffer that it read the file
// into.
func (r *fileRun) check(ctx context.Context, i int, from *reader, in *inspection, buffer []byte) ([]byte, error) {
	t, out := &r.targets[i], &r.files[i]
	out.Name = t.name
	buffer, problem := from.read(t, buffer)
	if problem != nil {
		out.Diagnostics = Diagnostics{*problem}.in(out.Name, "")
		return buffer, nil
	}
	return buffer, r.inspect(ctx, i, in, buffer)
}

// inspect validates the bytes of the file with the given index. Standard input has no workspace, and so no schemas.
func (r *fileRun) inspect(ctx context.Context, i int, in *inspection, data []byte) error {
	out := &r.files[i]
	in.run(out.Name, data)
	if r.options.Contract != nil && in.document.isMapping() && out.Name != stdinName {
		if check := r.options.Contract(out.Name, &in.message); check != nil {
			objections, err := check(ctx)
			if err != nil {
				return err
			}
			in.object(out.Name, objections)
		}
	}
	out.Diagnostics = in.findings
	if entry := in.document.root.get("id"); entry != nil {
		r.ids[i] = fileID{
			id:   schema.ID(strings.Clone(string(in.message.ID))), // so that the text of the file is not kept
			line: entry.value.line, column: entry.value.column, digest: maphash.Bytes(r.seed, data),
		}
	}
	return nil
}

// reportDuplicates adds a diagnostic to every file whose id another file has as well.
func (r *fileRun) reportDuplicates() {
	groups := make(map[schema.ID][]int, len(r.ids))
	for i, f := range r.ids {
		if f.id != "" {
			groups[f.id] = append(groups[f.id], i)
		}
	}
	for _, group := range groups {
		if len(group) > 1 {
			r.reportGroup(group)
		}
	}
}

func (r *fileRun) reportGroup(group []int) {
	differ := func(i, j int) bool { return r.ids[i].digest != r.ids[j].digest }
	first := group[0]
	other := slices.IndexFunc(group, func(i int) bool { return differ(i, first) })
	folders := make(map[string][]int)
	for _, i := range group {
		folder := filepath.Dir(r.files[i].Name)
		folders[folder] = append(folders[folder], i)
	}
	for _, i := range group {
		together := folders[filepath.Dir(r.files[i].Name)]
		switch {
		case differ(i, first):
			r.reportDuplicate(i, first, "has the same id and different content")
		case other >= 0:
			r.reportDuplicate(i, group[other], "has the same id and different content")
		case len(together) > 1:
			if i == together[0] {
				together = together[1:]
			}
			r.reportDuplicate(i, together[0], "in the same folder holds the same message")
		}
	}
}

func (r *fileRun) reportDuplicate(i, other int, what string) {
	file, at := &r.files[i], &r.ids[i]
	file.Diagnostics = append(file.Diagnostics, Diagnostic{
		File: file.Name, Line: int(at.line), Column: int(at.column), Field: "id", Rule: ruleDuplicateID, Severity: Error,
		Message: fmt.Sprintf("id: %s %s", visible.Line(r.files[other].Name), what),
	}).ordered()
}

// ReadFiles yields what Read returns for each file that the paths stand for, as in Files. The diagnostics
// of its *InvalidError name the file. Stdin is read for the path "-" and may be nil.
func ReadFiles(paths []string, stdin io.Reader) iter.Seq2[*schema.Message, error] {
	return func(yield func(*schema.Message, error) bool) {
		from := reader{stdin: stdin}
		defer from.close()
		buffer := make([]byte, 0, firstBuffer)
		for _, t := range walk(paths) {
			data, problem := from.read(&t, buffer[:0])
			if buffer = data; problem != nil {
				if !yield(nil, Diagnostics{*problem}.in(t.name, "").Err()) {
					return
				}
				continue
			}
			m, err := Read(data)
			var invalid *InvalidError
			if errors.As(err, &invalid) {
				err = invalid.Diagnostics.in(t.name, string(data)).Err()
			}
			if !yield(m, err) {
				return
			}
		}
	}
}
