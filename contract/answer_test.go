package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// FuzzAnswer checks that no answer of the program, whatever it holds, leads to a position outside the
// message, or ends in a panic.
func FuzzAnswer(f *testing.F) {
	seeds := []Answer{
		{ID: 1},
		{ID: 2, Error: "x"},
		{ID: 3, Violations: []Violation{
			{At: []string{"places", "0", "line"}, Message: "m", Advice: "a", File: "question.schema.json", Line: 1},
			{At: []string{"places", "9"}, Key: true, Message: "\x1b[31m"},
			{At: []string{"places", "-1", "x"}, FreeText: true, File: "nowhere"},
			{At: []string{"", "~", "/"}, Line: -1},
		}},
	}
	for _, seed := range seeds {
		line, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte(`{"id": -1}`))
	f.Add([]byte(`{"violations": [null, {"at": null}]}`))
	m := &schema.Message{Type: schema.Question, Body: schema.TextValue("title: x\nplaces:\n  - line: 1\n")}
	q, err := ask(m, []string{"question"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var a Answer
		if json.Unmarshal(line, &a) != nil {
			return
		}
		for _, d := range validate.Objections(m, "body.yaml", objections(&q, a.Violations)) {
			if d.Line < 1 || d.Line > 3 || d.Column < 1 || d.Rule == "" || !strings.HasPrefix(d.Field, "body") {
				t.Fatalf("%s: the diagnostic is %+v", line, d)
			}
			if strings.ContainsAny(d.Message+d.Fix, "\x1b\x07\n") {
				t.Fatalf("%s: the message is not safe to print: %q", line, d.Message)
			}
		}
	})
}

// TestRequestLine checks that a request written by hand is the one that the json package reads.
func TestRequestLine(t *testing.T) {
	for _, body := range []schema.Value{
		schema.TextValue("free \"text\"\n"), schema.TextValue("a: [1, {b: ~}]\n\"ü\": \"\\\"\""),
		{Kind: schema.Mapping, Pairs: []schema.Pair{{Key: "a", Value: schema.TextValue("<&>\u2028")}}},
	} {
		m := &schema.Message{Type: schema.Question, Channel: "x", Body: body}
		q, err := ask(m, []string{"question", "channel-x"}, []string{"channel-x"})
		if err != nil {
			t.Fatal(err)
		}
		q.ID = 7
		line, err := q.line()
		if err != nil {
			t.Fatal(err)
		}
		var read Request
		if err := json.Unmarshal(line, &read); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if read.ID != 7 || len(read.Names) != 2 || string(read.Fields) != string(q.Fields) || (body.Kind == schema.Text) != (read.Text != nil) {
			t.Errorf("%s reads back as %+v", line, read)
		}
		if read.Text != nil && *read.Text != body.Text {
			t.Errorf("the text reads back as %q, want %q", *read.Text, body.Text)
		}
		if strings.Count(string(line), "\n") != 1 {
			t.Errorf("%q is not one line", line)
		}
	}
}
