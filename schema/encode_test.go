package schema

import (
	"errors"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// golden is a message with every field, and the file it is written as.
var golden = Message{
	ID: "msg-20260313T1430Z-claude-a8f3", From: "claude", To: []AgentName{"codex", "gemini"},
	Type: ReviewFeedback, Priority: P1, CreatedAt: "2026-03-13T14:30:00Z", ExpiresAt: "2026-03-14T14:30:00Z",
	Channel: "reviews", AutonomyHint: "auto_proceed", RelatedPacket: "packets/review/1", RelatedPR: "42",
	ConversationID: "conv-20260313-claude-001", ParentID: "msg-20260313T1400Z-codex-b2e1",
	ContextKeys: "one\n  two\n", Subject: "Look at #42: it's \"fine\"",
	Telemetry: Telemetry{Model: "m-1", Turns: "3", InputTokens: "1000", OutputTokens: "20", WallTimeS: "1.5", EstCostUSD: "0.02"},
	Body:      TextValue("First line.\n\n  Indented - [x]: # {y}\n"),
}

const goldenFile = `id: msg-20260313T1430Z-claude-a8f3
from: claude
to: [codex, gemini]
type: review_feedback
priority: P1
created_at_utc: "2026-03-13T14:30:00Z"
expires_at: "2026-03-14T14:30:00Z"
channel: reviews
autonomy_hint: auto_proceed
related_packet: packets/review/1
related_pr: "42"
conversation_id: conv-20260313-claude-001
parent_message_id: msg-20260313T1400Z-codex-b2e1
context_keys: |
  one
    two
model: m-1
turns: "3"
input_tokens: "1000"
output_tokens: "20"
wall_time_s: "1.5"
est_cost_usd: "0.02"
subject: "Look at #42: it's \"fine\""
body: |
  First line.

    Indented - [x]: # {y}
`

func TestEncode(t *testing.T) {
	got, err := Encode(&golden)
	if err != nil || string(got) != goldenFile {
		t.Errorf("the file is\n%s (%v)\nwant\n%s", got, err, goldenFile)
	}
}

func TestEncodeOneRecipient(t *testing.T) {
	got, err := Encode(&Message{ID: "a", To: []AgentName{"codex"}, Body: TextValue("x")})
	if want := "id: a\nto: codex\nbody: x\n"; err != nil || string(got) != want {
		t.Errorf("the file is %q (%v), want %q", got, err, want)
	}
}

// TestEncodeText checks how each kind of text is written after its key.
func TestEncodeText(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"word", "Hello", "Hello"},
		{"sentence", "Look at it (again); a/b = c+d.", "Look at it (again); a/b = c+d."},
		{"lines", "a\nb", "|-\n  a\n  b"},
		{"lines with a last break", "a\nb\n", "|\n  a\n  b"},
		{"one line with its break", "a\n", "|\n  a"},
		{"an empty line between", "a\n\nb\n", "|\n  a\n\n  b"},
		{"indented later lines", "a\n  b\n c\n", "|\n  a\n    b\n   c"},
		{"space at the end of a line", "a \nb\n", "|\n  a \n  b"},
		{"characters of YAML in lines", "--- a\n# b\n- c: d\n%e\n...\n", "|\n  --- a\n  # b\n  - c: d\n  %e\n  ..."},
		{"letters beyond ASCII in lines", "ü\n漢\U0001f600\n", "|\n  ü\n  漢\U0001f600"},
		{"letters beyond ASCII", "für 漢", `"für 漢"`},
		{"nothing", "", `""`},
		{"space alone", "  ", `"  "`},
		{"leading indent", "  a\nb\n", `"  a\nb\n"`},
		{"leading break", "\na\n", `"\na\n"`},
		{"break alone", "\n", `"\n"`},
		{"trailing blank lines", "a\n\n", `"a\n\n"`},
		{"a line of space alone", "a\n  \n\t\nb\n", "|\n  a\n    \n  \t\n  b"},
		{"a last line of space alone", "a\n  \n", `"a\n  \n"`},
		{"a last line of tabs alone", "a\n\t", `"a\n\t"`},
		{"tabs", "a\tb\n\tc\n", "|\n  a\tb\n  \tc"},
		{"tab in one line", "a\tb", `"a\tb"`},
		{"tab in front", "\ta\nb\n", `"\ta\nb\n"`},
		{"carriage return", "a\rb", `"a\rb"`},
		{"CRLF", "a\r\nb\r\n", `"a\r\nb\r\n"`},
		{"line separator", "a\u2028b", `"a\u2028b"`},
		{"paragraph separator", "a\u2029b\nc\n", `"a\u2029b\nc\n"`},
		{"next line", "a\u0085b\nc\n", `"a\u0085b\nc\n"`},
		{"byte order mark", "\ufeffa\nb\n", `"\ufeffa\nb\n"`},
		{"NUL and bell", "a\x00\x07b", `"a\u0000\u0007b"`},
		{"delete", "a\x7fb", `"a\u007fb"`},
		{"no character", "a\ufffeb", `"a\ufffeb"`},
		{"quotes and backslashes", `"a" \n`, `"\"a\" \\n"`},
		{"space around", " a ", `" a "`},
		{"number", "42", `"42"`},
		{"float", "1e3", `"1e3"`},
		{"hexadecimal", "0x1F", `"0x1F"`},
		{"time", "2026-03-13", `"2026-03-13"`},
		{"sexagesimal", "12:30", `"12:30"`},
		{"yes", "yes", `"yes"`},
		{"No", "No", `"No"`},
		{"TRUE", "TRUE", `"TRUE"`},
		{"off", "off", `"off"`},
		{"y", "y", `"y"`},
		{"null", "null", `"null"`},
		{"nan", ".nan", `".nan"`},
		{"tilde", "~", `"~"`},
		{"beginning like yes", "yesterday", "yesterday"},
		{"comment", "a #b", `"a #b"`},
		{"hash in front", "#b", `"#b"`},
		{"mapping", "a: b", `"a: b"`},
		{"colon at the end", "a:", `"a:"`},
		{"document", "---", `"---"`},
		{"end of document", "...", `"..."`},
		{"list", "- a", `"- a"`},
		{"flow", "[a]", `"[a]"`},
		{"anchor", "&a", `"&a"`},
		{"alias", "*a", `"*a"`},
		{"tag", "!a", `"!a"`},
		{"block sign", "|", `"|"`},
		{"directive", "%a", `"%a"`},
		{"reserved", "@a `b`", "\"@a `b`\""},
		{"key sign", "? a", `"? a"`},
		{"merge", "<<", `"<<"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Encode(&Message{ID: "a", To: []AgentName{"b"}, Body: TextValue(test.text)})
			if want := "id: a\nto: b\nbody: " + test.want + "\n"; err != nil || string(got) != want {
				t.Fatalf("the file is %q (%v), want %q", got, err, want)
			}
			// Any YAML parser reads the text, as text.
			var read struct{ Body any }
			if err := yaml.Unmarshal(got, &read); err != nil || read.Body != any(test.text) {
				t.Errorf("a YAML parser reads %#v (%v), want %q", read.Body, err, test.text)
			}
		})
	}
}

// TestEncodeSingleLineFields checks that only prose is in blocks. A reader that goes by lines finds
// every other field whole after its name.
func TestEncodeSingleLineFields(t *testing.T) {
	got, err := Encode(&Message{
		ID: "a", To: []AgentName{"b"}, Channel: "one\ntwo", Subject: "one\n\ntwo\n",
		ContextKeys: "one\ntwo\n", Body: TextValue("one\ntwo\n"),
	})
	want := "id: a\nto: b\nchannel: \"one\\ntwo\"\ncontext_keys: |\n  one\n  two\nsubject: \"one\\n\\ntwo\\n\"\nbody: |\n  one\n  two\n"
	if err != nil || string(got) != want {
		t.Errorf("the file is\n%s(%v), want\n%s", got, err, want)
	}
}

func TestEncodeStructuredBody(t *testing.T) {
	text := TextValue
	body := Value{Kind: Mapping, Pairs: []Pair{
		{"intent", text("Take over")},
		{"#1: odd key", text("yes")},
		{"notes", text("a\nb\n")},
		{"nothing", Value{Kind: Null}},
		{"files", Value{Kind: List, Items: []Value{text("a.go"), text("b\nc"), {Kind: Null}, {Kind: List, Items: []Value{text("x")}}, {Kind: Mapping, Pairs: []Pair{{"k", text("v")}}}}}},
		{"none", Value{Kind: List}},
		{"empty", Value{Kind: Mapping}},
		{"deep", Value{Kind: Mapping, Pairs: []Pair{{"a", Value{Kind: Mapping, Pairs: []Pair{{"b", text("c\nd")}}}}}}},
	}}
	got, err := Encode(&Message{ID: "a", To: []AgentName{"b"}, Body: body})
	const want = `id: a
to: b
body:
  intent: Take over
  "#1: odd key": "yes"
  notes: |
    a
    b
  nothing: null
  files:
    - a.go
    - |-
      b
      c
    - null
    -
      - x
    -
      k: v
  none: []
  empty: {}
  deep:
    a:
      b: |-
        c
        d
`
	if err != nil || string(got) != want {
		t.Errorf("the file is\n%s (%v)\nwant\n%s", got, err, want)
	}
}

func TestEncodeRefuses(t *testing.T) {
	// A million short items a thousand levels deep would need two gigabytes.
	wide := Value{Kind: List, Items: make([]Value, 1_000_000)}
	for range MaxDepth {
		wide = Value{Kind: List, Items: []Value{wide}}
	}
	tests := []struct {
		name string
		m    Message
		is   error
		word string
	}{
		{"signed", Message{Auth: "x"}, ErrSigned, "signed"},
		{"too large", Message{Body: TextValue(strings.Repeat("x", MaxFileSize))}, ErrTooLarge, "1048576"},
		{"too large for its indentation", Message{Body: wide}, ErrTooLarge, "1048576"},
		{"not UTF-8, in a block", Message{Body: TextValue("a\xff\nb\n")}, nil, "UTF-8"},
		{"not UTF-8, in quotes", Message{Body: TextValue("a\xffb")}, nil, "UTF-8"},
		{"not UTF-8, in the subject", Message{Subject: "\xc3"}, nil, "UTF-8"},
		{"not UTF-8, in a key", Message{Body: Value{Kind: Mapping, Pairs: []Pair{{"\xff", TextValue("x")}}}}, nil, "UTF-8"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data, err := Encode(&test.m)
			if err == nil || data != nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.word) {
				t.Errorf("encoding gave %d bytes, %v; want %v", len(data), err, test.is)
			}
		})
	}
}

func TestEncodeMapping(t *testing.T) {
	got := EncodeMapping(Value{Kind: Mapping, Pairs: []Pair{
		{Key: "a", Value: TextValue("yes")},
		{Key: "list", Value: Value{Kind: List, Items: []Value{TextValue("1"), {Kind: Null}}}},
	}})
	if want := "a: \"yes\"\nlist:\n  - \"1\"\n  - null\n"; string(got) != want {
		t.Errorf("encoded as %q, want %q", got, want)
	}
}
