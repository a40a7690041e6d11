package validate

import (
	"context"
	"hash/maphash"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// A Set validates files that the caller has read, one after the other, in the way of Files.
type Set struct {
	run fileRun
	in  inspection
}

// NewSet returns an empty set. It uses only the Contract of the options, which may be nil.
func NewSet(options *FilesOptions) *Set {
	if options == nil {
		options = &FilesOptions{}
	}
	return &Set{run: fileRun{options: options, seed: maphash.MakeSeed()}}
}

// Add validates a file. It returns the index of the file in the set and the message, which is nil if the
// file is not a mapping of fields. It returns an error only if Contract fails.
func (s *Set) Add(ctx context.Context, name string, data []byte) (int, *schema.Message, error) {
	at := s.add(name)
	err := s.run.inspect(ctx, at, &s.in, data)
	if err != nil || !s.in.document.isMapping() {
		return at, nil, err
	}
	m := s.in.message
	return at, &m, nil
}

// AddUnreadable adds a file that cannot be validated, with the reason.
func (s *Set) AddUnreadable(name string, rule Rule, message, fix string) {
	s.Report(s.add(name), rule, "", message, fix)
}

func (s *Set) add(name string) int {
	s.run.files = append(s.run.files, File{Name: name})
	s.run.ids = append(s.run.ids, fileID{})
	return len(s.run.files) - 1
}

// Report adds a diagnostic to a file of the set. The field and the fix may be empty.
func (s *Set) Report(file int, rule Rule, field, message, fix string) {
	f := &s.run.files[file]
	f.Diagnostics = append(f.Diagnostics, Diagnostic{
		File: f.Name, Field: field, Rule: rule, Severity: rule.severity(), Message: visible.Line(message), Fix: visible.Line(fix),
	})
}

// Result compares the ids of the files, as Files does, and returns the files in the order in which
// they were added.
func (s *Set) Result() *Result {
	s.run.reportDuplicates()
	return &Result{Files: s.run.files}
}
