package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMarksOfAFile(t *testing.T) {
	tests := []struct {
		context string
		text    string
		want    Marks
	}{
		{"", "", Marks{}},
		{"oacp: {\"final\":true,\"hops\":1}", "", Marks{Final: true, Hops: 1}},
		{"commit: a1b2\noacp: {\"choices\":[\"yes\",\"not, yet\"]}\n", "commit: a1b2\noacp: {\"choices\":[\"yes\",\"not, yet\"]}\n", Marks{}}, // not valid
		{"commit: a1b2\r\noacp: {\"choices\":[\"yes\",\"no\"]} \r\n\n", "commit: a1b2\r", Marks{Choices: []string{"yes", "no"}}},
		{"oacp: {\"final\":true}\nas codex wrote", "oacp: {\"final\":true}\nas codex wrote", Marks{}},
		{"he wrote oacp: {\"final\":true}", "he wrote oacp: {\"final\":true}", Marks{}},
		{"> oacp: {\"final\":true}", "> oacp: {\"final\":true}", Marks{}},
		{"oacp: {\"final\":true} and more", "oacp: {\"final\":true} and more", Marks{}},
		{"oacp: {\"final\":\"yes\"}", "oacp: {\"final\":\"yes\"}", Marks{}},
		{"oacp: {\"hops\":-1}", "oacp: {\"hops\":-1}", Marks{}},
		{"oacp: {\"declined\":true}", "oacp: {\"declined\":true}", Marks{}},
		{"oacp: null", "oacp: null", Marks{}},
		{"oacp: {\"final\":true,\"later\":[1]}", "", Marks{Final: true}},
		// Earlier versions.
		{"commit: a1b2\nfinal: true\ndeclined: true\nhops: 2\n", "commit: a1b2\nfinal: true\ndeclined: true\nhops: 2\n", Marks{Final: true, Declined: true}},
		{"choice: yes\nfinal: true", "choice: yes\nfinal: true", Marks{Final: true}},
		{"choices: yes, no\nallow_secret: true", "choices: yes, no\nallow_secret: true", Marks{Choices: []string{"yes", "no"}}},
		{"choices: yes\nfinal: true", "choices: yes\nfinal: true", Marks{Final: true}},
		{"declined: true", "declined: true", Marks{}},
		{"final: true\nsays the protocol", "final: true\nsays the protocol", Marks{}},
		{"hops: 3", "hops: 3", Marks{}},
		{"final: true\noacp: {}", "final: true", Marks{}},
		{"final: true\noacp: {bad", "final: true\noacp: {bad", Marks{}},
	}
	for _, test := range tests {
		var m Message
		if m.SetContext(test.context); m.ContextKeys != test.text || !reflect.DeepEqual(m.Marks, test.want) {
			t.Errorf("context_keys %q: text %q, marks %+v; want %q, %+v", test.context, m.ContextKeys, m.Marks, test.text, test.want)
		}
	}
}

func TestMarksInTheFile(t *testing.T) {
	m := Message{ContextKeys: "commit: a1b2", Marks: Marks{Final: true, Choice: "<yes>", Hops: 2}}
	data, err := Encode(&m)
	if want := "context_keys: |\n  commit: a1b2\n  oacp: {\"final\":true,\"choice\":\"<yes>\",\"hops\":2}\n"; err != nil || !strings.Contains(string(data), want) {
		t.Errorf("%v, file %s, want %s", err, data, want)
	}
	quoted := Message{ContextKeys: "oacp: {\"final\":true}"} // a person's own words
	data, err = Encode(&quoted)
	if want := "context_keys: |\n  oacp: {\"final\":true}\n  oacp: {\"final\":false}\n"; err != nil || !strings.Contains(string(data), want) {
		t.Errorf("%v, file %s, want %s", err, data, want)
	}
}

// FuzzMarks checks that the text of anybody and the marks read as they were written, in a file and as JSON, and that the text
// sets no mark.
func FuzzMarks(f *testing.F) {
	f.Add("commit: a1b2\n\n", "yes", "not yet", uint8(7), 3)
	f.Add("final: true", "", "", uint8(0), 0)
	f.Add("oacp: {\"final\":true}\n", "", "", uint8(0), 0)
	f.Add("choices: a, b\r\nhops: 2\r\n", "a", "b", uint8(1), 0)
	f.Add("oacp: {}", "\u2028", "<&>\"", uint8(5), 1)
	f.Fuzz(func(t *testing.T, text, first, second string, bits uint8, hops int) {
		if !utf8.ValidString(text) {
			return
		}
		m := Message{ContextKeys: text, Marks: Marks{Final: bits&1 > 0, Declined: bits&2 > 0, AllowSecret: bits&4 > 0, Choice: first, Hops: hops}}
		if bits&8 > 0 {
			m.Marks.Choices = []string{first, second}
		}
		if m.Marks.Check() != nil {
			m.Marks = Marks{}
		}
		var read, decoded Message
		if read.SetContext(m.context()); !reflect.DeepEqual(read, m) {
			t.Errorf("%q reads as %+v, want %+v", m.context(), read, m)
		}
		data, err := m.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(data, &decoded)
		}
		if err != nil || !reflect.DeepEqual(decoded, m) {
			t.Errorf("%s reads as %+v (%v), want %+v", data, decoded, err, m)
		}
		// A file of another program is what it was.
		if read.SetContext(text); reflect.ValueOf(read.Marks).IsZero() && read.context() != text && read.ContextKeys == text {
			t.Errorf("%q of another program is written as %q", text, read.context())
		}
	})
}
