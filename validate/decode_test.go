package validate

import (
	"reflect"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

// plainSeeds are texts at the edges of what parsePlain accepts.
var plainSeeds = []string{
	"id: a\n", "id: a", "---\nid: a\n", "# c\nid: a # c\n", "id:\n", "id: ~\nto: null\n", "id: \"a\\nb\\u00e9\"  # c\n", "id: 'it''s'\n",
	"to: [a, b]\n", "to: [a, \"b c\", 'd', null]\n", "to: []\nbody: {}\n", "to:\n- a\n- b\nid: c\n", "to:\n  - a\n  - b\n",
	"body: |\n  a\n\n    b\n\n\nid: x\n", "body: |-\n  a\n", "body: |\n  a", "body: |\n\n  a\n", "body: |\n  a\n # c\nid: x\n", "body: |\n  a\n   \n  b\n",
	"body:\n  a: b\n  c:\n    - d\n    -\n      e: f\n  g: |\n    h\n", "body:\n  a:\n  - b\n  c: d\n", "body:\n  - a\n  b: c\n",
	"a: b\n  c\n", "a: b: c\n", "a: b:\n", "a: [b\n", "a: \"b\n", "a: 'b\n c'\n", "a:b\n", "a\n", "a: #b\n", "a: b#c\n", "a:  b  \n\n\n", "- a\n- b\n",
	"a: \tb\n", "a: b\r\nc: d\r\n", "a: *b\n", "a: &b c\n", "a: !!str c\n", "<<: a\n", "? a\n: b\n", "a: b\n...\n", "a: b\n---\nc: d\n", "a: 1\na: 2\n",
	"a: -\n", "a: -1\n", "a: - b\n", "a:\n  -b\n", "a: @b\n", "a: %b\n", "a: http://x/y#z\n", "a: \u00e9\u2019 b\nc: d\n", "a: [\u00e9, b]\n", "a: [\"\u00e9\", b]\n",
	"a: {b: c}\n", "a: |2\n   b\n", "a: >\n  b\n  c\n", "a: \"\\ud83d\\ude00\"\n", "a: \"\\x41\\0\"\n", "%YAML 1.2\n---\na: b\n", "\ufeffa: b\n", "a:\n\n  # c\n  b: c\n",
	"a: b\n # c\n  # d\nb: c\n", "a:\n- |\n  b\n- c\n", "a:\n-\n- b\n", "a:\nb:\n", "a: ...\n", "a: ~x\n", "a: b\n   \nc: d\n", "a: [ a , b ]\n", "a: [a,b]\n", "a: {} # c\n", "a: []x\n", "a: \"b\"c\n", "a: \"b\" c\n", "a: \"b\"#c\n",
}

// FuzzPlain checks that the YAML parser reads what the line parser accepts in the same way.
func FuzzPlain(f *testing.F) {
	for _, seed := range plainSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<12 {
			return
		}
		text, plain, problem := checkSource(data)
		if problem != nil || !plain {
			return
		}
		quick, ok := parsePlain(text, nil)
		if !ok {
			return
		}
		slow, findings := parseYAML(text)
		if len(findings) > 0 {
			t.Fatalf("%q: the line parser accepts what YAML does not: %v", text, findings)
		}
		if !reflect.DeepEqual(normal(quick), normal(slow)) {
			t.Fatalf("%q:\nline parser %+v\nYAML parser %+v", text, quick, slow)
		}
	})
}

// normal makes nodes comparable: empty and nil lists are the same.
func normal(n node) node {
	var items []node
	for _, item := range n.items {
		items = append(items, normal(item))
	}
	var pairs []pair
	for _, p := range n.pairs {
		p.value = normal(p.value)
		pairs = append(pairs, p)
	}
	n.items, n.pairs = items, pairs
	return n
}

const typical = `id: "msg-20260313T1430Z-claude-a8f3"
from: claude
to: codex
type: task_request
priority: P2
created_at_utc: "2026-03-13T14:30:00Z"
related_pr: "42"
conversation_id: "conv-20260313-claude-001"
parent_message_id: "msg-20260313T1400Z-codex-b2e1"
subject: "Add input validation to /api/users endpoint"
body: |
  The /api/users POST endpoint currently accepts any payload.
  Please add:
    - Email format validation
    - Username length check (3-30 chars, alphanumeric + underscore)
    - Rate limiting on failed validation attempts

  Reference: docs/api-spec.md section 3.2
`

func TestReadTypical(t *testing.T) {
	text, plain, _ := checkSource([]byte(typical))
	if _, ok := parsePlain(text, nil); !ok || !plain {
		t.Error("the typical message is not read the quick way")
	}
	m, err := Read([]byte(typical))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := schema.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m, again) {
		t.Errorf("read back: %+v, want %+v", again, m)
	}
}

func BenchmarkRead(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read([]byte(typical)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, findings := Decode([]byte(typical)); len(findings) > 0 {
			b.Fatal(findings)
		}
	}
}

func BenchmarkParseYAML(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, findings := parseYAML(typical); len(findings) > 0 {
			b.Fatal(findings)
		}
	}
}

func BenchmarkBytes(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, findings := Bytes("", []byte(typical)); len(findings) > 0 {
			b.Fatal(findings)
		}
	}
}
