package validate

import (
	"errors"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

// TestMessage checks the mistakes that only a composed message can have.
func TestMessage(t *testing.T) {
	mapping := func(pairs ...schema.Pair) schema.Value { return schema.Value{Kind: schema.Mapping, Pairs: pairs} }
	deep := schema.TextValue("x")
	for range schema.MaxDepth {
		deep = schema.Value{Kind: schema.List, Items: []schema.Value{deep}}
	}
	tests := []struct {
		name   string
		change func(*schema.Message)
		want   string
	}{
		{"valid", func(*schema.Message) {}, ""},
		{"nothing", func(m *schema.Message) { *m = schema.Message{} }, strings.ReplaceAll("missing-field id; missing-field from; missing-field to; missing-field type; missing-field priority; missing-field created_at_utc; missing-field subject; missing-field body", "missing-field", "0:0 error missing-field")},
		{"outer space", func(m *schema.Message) { m.Subject = "Hello\n" }, "0:0 error outer-space subject"},
		{"prose keeps its space", func(m *schema.Message) { m.ContextKeys = " a\n\n"; m.Body.Text = "\n b " }, ""},
		{"no UTF-8", func(m *schema.Message) { m.Channel = "\xff" }, "0:0 warning channel-characters channel; 0:0 error encoding channel"},
		{"no UTF-8 in the body", func(m *schema.Message) { m.Body.Text = "\xff" }, "0:0 error encoding body"},
		{"no UTF-8 in a mapping", func(m *schema.Message) {
			m.Body = mapping(schema.Pair{Key: "a", Value: schema.TextValue("\xff")}, schema.Pair{Key: "\xff", Value: schema.TextValue("")})
		}, "0:0 error encoding body.\\xff; 0:0 error encoding body.a"},
		{"repeated key", func(m *schema.Message) {
			m.Body = mapping(schema.Pair{Key: "a", Value: schema.TextValue("")}, schema.Pair{Key: "a", Value: schema.TextValue("")})
		}, "0:0 error yaml-duplicate-key body.a"},
		{"absent inside", func(m *schema.Message) { m.Body = mapping(schema.Pair{Key: "a"}) }, "0:0 error body-kind body.a"},
		{"list", func(m *schema.Message) { m.Body = schema.Value{Kind: schema.List} }, "0:0 error body-kind body"},
		{"null", func(m *schema.Message) { m.Body = schema.Value{Kind: schema.Null} }, "0:0 error missing-field body"},
		{"too deep", func(m *schema.Message) { m.Body = mapping(schema.Pair{Key: "a", Value: deep}) }, "0:0 error yaml-depth body"},
		{"broken text of a handoff", func(m *schema.Message) { m.Type = schema.Handoff; m.Body.Text = "a: b\nc: d: e\n" }, "0:0 error yaml-syntax body"},
		{"control character in the text of a handoff", func(m *schema.Message) { m.Type = schema.Handoff; m.Body.Text = "a: b\n\x01" }, "0:0 error control-character body"},
		{"signature", func(m *schema.Message) { m.Auth = "a b" }, "0:0 error auth-form auth"},
		{"signature without a file", func(m *schema.Message) { m.Auth = someAuth }, ""},
		{"signature of its file", func(m *schema.Message) { *m = *signedMessage(t) }, ""},
		{"signature of another text", func(m *schema.Message) { *m = *signedMessage(t); m.Subject = "Bye" }, "0:0 error auth-form auth"},
		{"signature with a broken file", func(m *schema.Message) { *m = *signedMessage(t); m.File = "{" }, "0:0 error auth-form auth"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := Read([]byte(with()))
			if err != nil {
				t.Fatal(err)
			}
			test.change(m)
			findings := Message(m)
			if got := summary(findings); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func signedMessage(t *testing.T) *schema.Message {
	t.Helper()
	m, err := Read([]byte(with() + "auth: \"" + someAuth + "\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMessageSaysWhereInTheBody(t *testing.T) {
	m, err := Read([]byte(with()))
	if err != nil {
		t.Fatal(err)
	}
	m.Type, m.Body.Text = schema.Handoff, "a: b\nc: d: e\n"
	err = Message(m).Err()
	if err == nil || !strings.Contains(err.Error(), "line 2 of the body") {
		t.Errorf("got %v, want the line", err)
	}
}

func TestError(t *testing.T) {
	if err := (Diagnostics{{Severity: Warning, Rule: ruleChannel}}).Err(); err != nil {
		t.Errorf("a warning gives %v, want nil", err)
	}
	_, err := Read([]byte(with("priority: p2", "type: x")))
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Diagnostics) != 2 {
		t.Fatalf("got %#v, want an *InvalidError with two findings", err)
	}
	if got, want := err.Error(), `4:7: type: "x" is not a message type [type] (and 1 more)`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEscape checks that no control character of a file reaches a terminal.
func TestEscape(t *testing.T) {
	_, findings := Bytes("\x1b.yaml", []byte(with(`type: "\x1b]0;x\a"`, `"\e[1m": x`)))
	result := Result{Files: []File{{Diagnostics: findings}}}
	var text, github strings.Builder
	if err := errors.Join(result.WriteText(&text, false), result.WriteGitHub(&github)); err != nil {
		t.Fatal(err)
	}
	if len(findings) != 2 || strings.ContainsAny(text.String()+github.String(), "\x1b\x07") {
		t.Errorf("%d findings:\n%q\n%q", len(findings), text.String(), github.String())
	}
}

// TestGitHubEscape checks that neither a path nor a message ends its command early.
func TestGitHubEscape(t *testing.T) {
	var out strings.Builder
	result := Result{Files: []File{{Diagnostics: Diagnostics{{File: "a,b:c%.yaml", Line: 1, Column: 2, Severity: Error, Rule: ruleType, Message: "100%::x", Fix: "y"}}}}}
	if err := result.WriteGitHub(&out); err != nil {
		t.Fatal(err)
	}
	want := "::error file=a%2Cb%3Ac%25.yaml,line=1,col=2,title=oacp type::100%25::x%0Afix: y\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestHostile checks that validating slow, deep or large texts ends with an error.
func TestHostile(t *testing.T) {
	const size = 96 << 10
	for _, part := range []string{"[", "{a: ", "- ", "? ", "- \n", "#\n", " #\n", "a: b\n", "a: \"", "*a ", "&a ", "--- a\n", "%A\n", "%TAG !a! b\n", "\r", "\u2028", "\ufeff", "|\n", "- |\n", "a:\n  - b\n # c\n", "\"\\", "''", "<<: ", "!!x ", ",", "]"} {
		for _, before := range []string{"", "a: [\n", "a: \"", "type: handoff\nbody: |\n  "} {
			text := before + strings.Repeat(part, size/len(part))
			if _, findings := Bytes("", []byte(text)); !findings.HasErrors() {
				t.Errorf("%q and many of %q: no error", before, part)
			}
		}
	}
}
