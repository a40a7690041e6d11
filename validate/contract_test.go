package validate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

// messageWith returns a message file whose body begins in line 8.
func messageWith(body string) string {
	return "id: msg-20260313T1430Z-claude-0001\nfrom: claude\nto: codex\ntype: question\npriority: P2\n" +
		"created_at_utc: 2026-03-13T14:30:00Z\nsubject: x\nbody: " + body
}

// TestPlacesOfObjections checks the positions of objections to a body in its file, however it is written.
func TestPlacesOfObjections(t *testing.T) {
	value := Objection{At: []any{"places", 1, "line"}, Message: "m"}
	key := Objection{At: []any{"places", 1, "line"}, Key: true, Message: "m"}
	whole := Objection{Message: "m"}
	tests := map[string]struct {
		body string
		want map[*Objection]string
	}{
		"a literal block":                {"|\n  places:\n    - line: 1\n    - line: x\n", map[*Objection]string{&value: "11:13", &key: "11:7", &whole: "8:7"}},
		"a literal block with an indent": {"|2\n\n  # ä\n  places:\n  - {}\n  - {ä: 1, line: x}\n", map[*Objection]string{&value: "13:18", &key: "13:12"}},
		"a quoted text":                  {"\"places: [{}, {line: x}]\"\n", map[*Objection]string{&value: "8:7", &key: "8:7", &whole: "8:7"}},
		"a folded text":                  {">\n  places: [{},\n  {line: x}]\n", map[*Objection]string{&value: "8:7"}},
		"a mapping":                      {"\n  places:\n    - line: 1\n    - line: x\n", map[*Objection]string{&value: "11:13", &key: "11:7", &whole: "9:3"}},
		"a flow":                         {"{places: [{}, {line: x}]}\n", map[*Objection]string{&value: "8:28", &key: "8:22"}},
		"free text":                      {"Please look.\n", map[*Objection]string{&whole: "8:7", &value: "8:7"}},
	}
	folder := t.TempDir()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(folder, "message.yaml")
			if err := os.WriteFile(file, []byte(messageWith(test.body)), 0o644); err != nil {
				t.Fatal(err)
			}
			for objection, want := range test.want {
				judge := func(string, *schema.Message) func(context.Context) ([]Objection, error) {
					return func(context.Context) ([]Objection, error) { return []Objection{*objection}, nil }
				}
				result, err := Files(t.Context(), []string{file}, &FilesOptions{Contract: judge})
				if err != nil {
					t.Fatal(err)
				}
				found := result.Diagnostics()
				if len(found) != 1 || found[0].Rule != ruleContract || fmt.Sprintf("%d:%d", found[0].Line, found[0].Column) != want {
					t.Errorf("%v (key %v): got %v, want %s", objection.At, objection.Key, found, want)
				}
			}
		})
	}
}

// TestObjectionsToADraft checks the positions of objections to a message that is not in a file yet.
func TestObjectionsToADraft(t *testing.T) {
	objections := []Objection{
		{At: []any{"b"}, Message: "second"}, {At: []any{"a"}, Key: true, Message: "first \x1b[31m", Fix: "mend it"},
	}
	text := &schema.Message{Type: schema.Question, Body: schema.TextValue("# comment\na: 1\nb: 2\n")}
	mapping := &schema.Message{Type: schema.Question, Body: schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{{Key: "a", Value: schema.TextValue("1")}}}}
	tests := []struct {
		m    *schema.Message
		file string
		want string
	}{
		{text, "body.yaml", `body.yaml:2:1: body.a: first \x1b[31m [contract]|body.yaml:3:4: body.b: second [contract]`},
		{text, "", `body.a: first \x1b[31m (line 2 of the body) [contract]|body.b: second (line 3 of the body) [contract]`},
		{mapping, "", `body.b: second [contract]|body.a: first \x1b[31m [contract]`},
	}
	for _, test := range tests {
		var got []string
		for _, d := range Objections(test.m, Source{BodyFile: test.file}, objections) {
			got = append(got, d.String())
		}
		if text := strings.Join(got, "|"); text != test.want {
			t.Errorf("got  %s\nwant %s", text, test.want)
		}
	}
	if found := Objections(text, Source{BodyFile: "body.yaml"}, nil); found != nil {
		t.Errorf("without objections: %v", found)
	}
}

// TestContractOfManyFiles checks that every message is judged once, and that an error ends the whole.
func TestContractOfManyFiles(t *testing.T) {
	const count = 500
	folder := t.TempDir()
	for i := range count {
		text := strings.Replace(messageWith("a: b\n"), "body: a: b", "body: x", 1)
		text = strings.Replace(text, "claude-0001", fmt.Sprintf("claude-%04d", i), 1)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.yaml", i)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var judged atomic.Int64
	judge := func(string, *schema.Message) func(context.Context) ([]Objection, error) {
		return func(context.Context) ([]Objection, error) {
			judged.Add(1)
			return nil, nil
		}
	}
	result, err := Files(t.Context(), []string{folder}, &FilesOptions{Contract: judge})
	if err != nil || len(result.Files) != count || judged.Load() != count || result.HasErrors() {
		t.Errorf("%d of %d messages were judged: %v, %v", judged.Load(), count, err, result.Diagnostics())
	}
	broken := errors.New("broken")
	judge = func(string, *schema.Message) func(context.Context) ([]Objection, error) {
		return func(context.Context) ([]Objection, error) { return nil, broken }
	}
	if _, err := Files(t.Context(), []string{folder}, &FilesOptions{Contract: judge}); !errors.Is(err, broken) {
		t.Errorf("the error is %v, want that of the contract", err)
	}
}
