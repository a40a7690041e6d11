package validate

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDraft(t *testing.T) {
	const file = "to: codex\ntype: question\nsubject: s\nbody: |\n  x\n"
	tests := []struct{ name, data, want string }{
		{"without what sending adds", "from: claude\n" + file, ""},
		{"without a sender", file, "a.yaml:1:1: from: the required field is missing or empty [missing-field]"},
		{"with a wrong id", "from: claude\nid: x\n" + file, `a.yaml:2:5: id: id "x" is not of the form msg-<timestamp>-<sender>-<rand> [id-form]`},
		{"with an unknown field", "from: claude\nkind: x\n" + file, "a.yaml:2:1: kind: a message does not have this field [unknown-field]"},
		{"no mapping", "- a\n", "a.yaml:1:1: a message file is a mapping of fields, not a list [yaml-top-level]"},
		{"nothing", "", "a.yaml:1:1: the file does not contain a message [file-empty]"},
		{"with a body that is not typed", "from: claude\nto: codex\ntype: handoff\nsubject: s\nbody: x\n",
			"a.yaml:5:7: body: the body of a handoff is a YAML mapping, not free text [typed-body]"},
	}
	for _, test := range tests {
		if got := draftError(test.data); got != test.want && !strings.HasPrefix(got, test.want+" ") {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func draftError(data string) string {
	d, err := ParseDraft("a.yaml", []byte(data))
	if err == nil {
		err = d.Check()
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzDraft checks that a draft is refused for the reasons that validate gives for the file, except
// for fields that sending adds.
func FuzzDraft(f *testing.F) {
	for _, folder := range []string{"valid", "invalid"} {
		paths, err := filepath.Glob(filepath.Join("..", "testdata", "messages", folder, "*.yaml"))
		if err != nil || len(paths) == 0 {
			f.Fatalf("there are no messages in %s: %v", folder, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("\uFEFF")) // a byte order mark alone
	added := []string{"id", "created_at_utc", "priority"}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, want := Bytes("", data)
		want = slices.DeleteFunc(want, func(d Diagnostic) bool {
			return d.Severity != Error || d.Rule == ruleMissingField && slices.Contains(added, d.Field)
		})
		var got Diagnostics
		d, err := ParseDraft("", data)
		if err == nil {
			err = d.Check()
		}
		if invalid, ok := errors.AsType[*InvalidError](err); ok {
			got = slices.DeleteFunc(invalid.Diagnostics, func(d Diagnostic) bool { return d.Severity != Error })
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
