package contract_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/cmd/oacp-contract/judge"
	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// programVariable makes the test binary a program that behaves in the way that the variable names.
const programVariable = "CONTRACT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(programVariable); behaviour != "" {
		behave(behaviour)
	}
	os.Exit(m.Run())
}

// behave is oacp-contract, or a program in its place that fails.
func behave(how string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	ready := func() {
		in.Scan()
		fmt.Printf(`{"version": %d, "problems": []}`+"\n", contract.Version)
	}
	switch how {
	case "answers":
		if err := judge.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "fails at once":
		fmt.Fprintln(os.Stderr, "first line\nno memory")
		os.Exit(3)
	case "says nothing":
		select {}
	case "reads nothing more":
		ready()
		select {}
	case "ends before it answers":
		ready()
		in.Scan()
	case "writes no JSON":
		ready()
		in.Scan()
		fmt.Println("hello")
		select {}
	case "writes without end":
		ready()
		for {
			fmt.Print(strings.Repeat("x", 1<<16))
		}
	case "is of another version":
		in.Scan()
		fmt.Println(`{"version": 99}`)
	case "answers something else":
		ready()
		for in.Scan() {
			fmt.Println(`{"id": 12345}`)
		}
	}
	os.Exit(0)
}

// program returns the path of a program that behaves as named.
func program(t testing.TB, how string) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(programVariable, how)
	return path
}

// workspaceWith makes a workspace that has the files, and opens it.
func workspaceWith(t testing.TB, files map[string]string) (root *os.Root, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	return root, dir
}

const titleSchema = `{"type": "object", "required": ["title"], "properties": {"title": {"type": "string", "minLength": 3}}}`

func question(body string) *schema.Message {
	return &schema.Message{Type: schema.Question, Body: schema.TextValue(body)}
}

func TestCheckDraft(t *testing.T) {
	root, dir := workspaceWith(t, map[string]string{
		"schemas/question.schema.json":      titleSchema,
		"schemas/channel-a_B-1.schema.json": `{"required": ["line"]}`,
		"schemas/channel-a.b.schema.json":   `not one of ours`,
		"schemas/poem.schema.json":          `not one of ours either`,
	})
	path := program(t, "answers")
	started := 0
	check := func(m *schema.Message) string {
		err := contract.CheckDraft(t.Context(), root, dir, func() string { started++; return path }, m, validate.Source{BodyFile: "b.yaml"})
		if err == nil {
			return ""
		}
		if _, ok := errors.AsType[*validate.InvalidError](err); !ok {
			t.Errorf("the error is %v, want a *validate.InvalidError", err)
		}
		return err.Error()
	}
	if got := check(question("title: long enough")); got != "" {
		t.Errorf("a body that fits: %s", got)
	}
	want := "b.yaml:2:8: body.title: length must be >= 3, but got 1 (schemas/question.schema.json) [contract]"
	if got := check(question("# a comment\ntitle: x")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	both := question("title: x")
	both.Channel = "a_B-1"
	if got := check(both); !strings.Contains(got, "the field line is missing") || !strings.Contains(got, "1 more") {
		t.Errorf("type and channel: %s", got)
	}
	before := started
	for _, m := range []*schema.Message{
		{Type: schema.BrainstormRequest, Body: schema.TextValue("x")}, {Type: schema.Notification, Channel: "a.b", Body: schema.TextValue("x")},
		{Type: schema.Notification, Channel: "../question", Body: schema.TextValue("x")}, {Type: "poem", Body: schema.TextValue("x")},
	} {
		if got := check(m); got != "" {
			t.Errorf("a %s on %q: %s", m.Type, m.Channel, got)
		}
	}
	if started != before {
		t.Error("the program was called for messages that have no schema")
	}
	if err := contract.CheckDraft(t.Context(), root, dir, func() string { return "" }, question("x"), validate.Source{}); !errors.Is(err, contract.ErrNotInstalled) {
		t.Errorf("without the program: %v, want ErrNotInstalled", err)
	}
}

// TestProgramThatFails checks that a body is refused when the program fails, in whatever way, and
// that nothing is left of the program.
func TestProgramThatFails(t *testing.T) {
	root, dir := workspaceWith(t, map[string]string{"schemas/question.schema.json": titleSchema})
	for how, want := range map[string]string{
		"fails at once":          "it exited: exit status 3: no memory",
		"says nothing":           "within 300ms",
		"reads nothing more":     "within 300ms",
		"ends before it answers": "it exited",
		"writes no JSON":         "an answer cannot be read",
		"writes without end":     "token too long",
		"is of another version":  "another version of oacp",
		"answers something else": "it answered a different question",
	} {
		t.Run(how, func(t *testing.T) {
			if strings.HasPrefix(want, "within") {
				contract.SetAnswerTimeout(t, 300*time.Millisecond)
			}
			path := program(t, how)
			err := contract.CheckDraft(t.Context(), root, dir, func() string { return path }, question("title: long"), validate.Source{})
			if !errors.Is(err, contract.ErrNoAnswer) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("got %v, want ErrNoAnswer: %s", err, want)
			}
		})
	}
	t.Run("is not a program", func(t *testing.T) {
		err := contract.CheckDraft(t.Context(), root, dir, func() string { return dir }, question("title: long"), validate.Source{})
		if !errors.Is(err, contract.ErrNoAnswer) {
			t.Errorf("got %v, want ErrNoAnswer", err)
		}
	})
	t.Run("is stopped", func(t *testing.T) {
		path := program(t, "reads nothing more")
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("stopped")
		err := contract.CheckDraft(ctx, root, dir, func() string { cancel(cause); return path }, question("title: long"), validate.Source{})
		if !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the cause", err)
		}
	})
}

// TestManyAsk checks that each of many goroutines gets the answer to its own question.
func TestManyAsk(t *testing.T) {
	root, dir := workspaceWith(t, map[string]string{"schemas/question.schema.json": titleSchema})
	schemas, err := contract.Load(root, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	checker, err := contract.NewChecker(t.Context(), program(t, "answers"), schemas)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			for n := range 50 {
				m := question(fmt.Sprintf("%stitle: %s", strings.Repeat("#\n", n), "long enough"[:1+i%2*5]))
				objections, err := checker.Check(t.Context(), m)
				if err != nil || len(objections) != 1-i%2 {
					t.Errorf("got %v and %v", objections, err)
				}
			}
		})
	}
	group.Wait()
	checker.Close()
}

func TestSchemasThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat(" ", contract.MaxSize) + "{}": "at most 1048576 bytes",
		"{\"title\": \"\xff\"}":                      "not UTF-8",
	} {
		root, dir := workspaceWith(t, map[string]string{"schemas/question.schema.json": text, "schemas/note.json": "hello"})
		s, err := contract.Load(root, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		bad, ok := errors.AsType[*contract.SchemaError](s.Err())
		if !ok || !strings.Contains(bad.Error(), want) || len(s.Names) > 0 {
			t.Errorf("got %v, want %q", s.Err(), want)
		}
	}
	t.Run("many files", func(t *testing.T) {
		files := map[string]string{"schemas/question.schema.json": "{}"}
		for i := range contract.MaxFiles {
			files[fmt.Sprintf("schemas/%d.json", i)] = "{}"
		}
		root, dir := workspaceWith(t, files)
		if _, err := contract.Load(root, dir, nil); err == nil || !strings.Contains(err.Error(), "more than 64 .json files") {
			t.Errorf("got %v, want an error", err)
		}
	})
	t.Run("links", func(t *testing.T) {
		root, dir := workspaceWith(t, map[string]string{"schemas/a.json": titleSchema, "other/question.schema.json": titleSchema})
		link := filepath.Join(dir, "schemas", "question.schema.json")
		if err := os.Symlink("../other/question.schema.json", link); err != nil {
			t.Skip("this system makes no links: ", err)
		}
		if s, err := contract.Load(root, dir, nil); err != nil || !strings.Contains(fmt.Sprint(s.Err()), "it cannot be read") {
			t.Errorf("a link to a schema: got %v and %v", s.Err(), err)
		}
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "schemas")), os.Symlink("other", filepath.Join(dir, "schemas"))); err != nil {
			t.Fatal(err)
		}
		if _, err := contract.Load(root, dir, nil); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("a link to the folder: got %v", err)
		}
	})
}

func TestNames(t *testing.T) {
	root, dir := workspaceWith(t, map[string]string{"agents/x": ""})
	if names, err := contract.Names(root, dir); names != nil || err != nil {
		t.Errorf("without schemas: %q, %v", names, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "schemas"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := contract.Names(root, dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("schemas is a file: %v, want an error", err)
	}
}

// BenchmarkValidate measures the validation of 20,000 messages, with a schema for their bodies and
// without.
func BenchmarkValidate(b *testing.B) {
	const count = 20_000
	files := map[string]string{"schemas/channel-findings.schema.json": titleSchema}
	for i := range count {
		id := fmt.Sprintf("msg-20261120T10%02dZ-claude-%05d", i/60%60, i)
		files[fmt.Sprintf("agents/codex/inbox/20261120T10%02dZ_claude_review_feedback_%05d.yaml", i/60%60, i)] = fmt.Sprintf(
			"id: %s\nfrom: claude\nto: codex\ntype: review_feedback\npriority: P2\ncreated_at_utc: 2026-11-20T10:%02d:00Z\n"+
				"channel: findings\nsubject: Finding %d\nbody: |\n  title: The request has no timeout\n  severity: high\n  line: %d\n",
			id, i/60%60, i, i)
	}
	_, dir := workspaceWith(b, files)
	path := program(b, "answers")
	for name, use := range map[string]bool{"with": true, "without": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				contracts := &contract.Workspaces{Program: func() string { return path }}
				options := &validate.FilesOptions{}
				if use {
					options.Contract = contracts.CheckOf
				}
				result, err := validate.Files(b.Context(), []string{filepath.Join(dir, "agents")}, options)
				contracts.Close()
				if err != nil || len(result.Files) != count || result.HasErrors() {
					b.Fatal(err, len(result.Files), result.Diagnostics()[:1])
				}
			}
		})
	}
}

// TestProtocol checks the names of the protocol, which programs of different versions share.
func TestProtocol(t *testing.T) {
	text := "a: b"
	for _, test := range []struct {
		value any
		want  string
	}{
		{contract.Start{Version: 1, Files: map[string]string{"a": "{}"}, Names: []string{"a"}}, `{"version":1,"files":{"a":"{}"},"names":["a"]}`},
		{contract.Request{ID: 1, Names: []string{"a"}, Fields: []byte(`{"a":"b"}`), Text: &text}, `{"id":1,"names":["a"],"fields":{"a":"b"},"text":"a: b"}`},
		{contract.Answer{ID: 1}, `{"id":1}`},
	} {
		if got, err := json.Marshal(test.value); err != nil || string(got) != test.want {
			t.Errorf("got %s, %v; want %s", got, err, test.want)
		}
	}
}
