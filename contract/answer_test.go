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
			{At: []string{"places", "0", "line"}, Message: "m", Advice: "a", File: "question.schema.json"},
			{At: []string{"places", "9"}, Key: true, Message: "\x1b[31m"},
			{At: []string{"places", "-1", "x"}, FreeText: true, File: "nowhere"},
			{At: []string{"", "~", "/"}},
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
	q, err := ask(m, []string{"question"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var a Answer
		if json.Unmarshal(line, &a) != nil {
			return
		}
		for _, d := range validate.Objections(m, validate.Source{BodyFile: "body.yaml"}, objections(&q, a.Violations)) {
			if d.Line < 1 || d.Line > 3 || d.Column < 1 || d.Rule == "" || !strings.HasPrefix(d.Field, "body") {
				t.Fatalf("%s: the diagnostic is %+v", line, d)
			}
			if strings.ContainsAny(d.Message+d.Fix, "\x1b\x07\n") {
				t.Fatalf("%s: the message is not safe to print: %q", line, d.Message)
			}
		}
	})
}
