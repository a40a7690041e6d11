package ash_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/ash"
)

func TestEncodeCommand(t *testing.T) {
	for _, test := range []struct {
		name    string
		command ash.Command
		want    string // or, with a leading !, a part of the error
	}{
		{"query", ash.Query{Prompt: "a <b> & \"c\"\n\u2028", SessionID: "s"}, `{"cmd":"query","prompt":"a <b> & \"c\"\n\u2028","sessionId":"s"}`},
		{"blocks", ash.Query{Blocks: json.RawMessage(" [1,\n2] "), SessionID: "s"}, `{"cmd":"query","prompt":[1, 2],"sessionId":"s"}`},
		{"no blocks", ash.Query{Blocks: json.RawMessage("[]")}, `{"cmd":"query","prompt":[],"sessionId":""}`},
		{"extra", ash.Query{Extra: map[string]json.RawMessage{"b": json.RawMessage("1.0"), "a\"": json.RawMessage("null")}}, `{"cmd":"query","prompt":"","sessionId":"","a\"":null,"b":1.0}`},
		{"partial", ash.Query{IncludePartialMessages: true}, `{"cmd":"query","prompt":"","sessionId":"","includePartialMessages":true}`},
		{"resume", ash.Resume{SessionID: "s"}, `{"cmd":"resume","sessionId":"s"}`},
		{"interrupt", ash.Interrupt{}, `{"cmd":"interrupt"}`},
		{"shutdown", ash.Shutdown{}, `{"cmd":"shutdown"}`},
		{"nil", nil, "!no such command"},
		{"two prompts", ash.Query{Prompt: "x", Blocks: json.RawMessage("[]")}, "!prompt: both"},
		{"blocks not an array", ash.Query{Blocks: json.RawMessage(`{"a":1}`)}, "!prompt: content blocks must be a JSON array"},
		{"blocks empty", ash.Query{Blocks: json.RawMessage{}}, "!prompt: content blocks must be a JSON array"},
		{"blocks no JSON", ash.Query{Blocks: json.RawMessage(`[1}`)}, "!prompt: not valid JSON"},
		{"blocks no UTF-8", ash.Query{Blocks: json.RawMessage("[\"\xff\"]")}, "!prompt: not valid UTF-8"},
		{"prompt no UTF-8", ash.Query{Prompt: "\xff"}, "!prompt: not valid UTF-8"},
		{"session no UTF-8", ash.Resume{SessionID: "\xff"}, "!sessionId: not valid UTF-8"},
		{"extra taken", ash.Query{Extra: map[string]json.RawMessage{"ev": json.RawMessage("1")}}, "!extra field ev"},
		{"extra no JSON", ash.Query{Extra: map[string]json.RawMessage{"a": json.RawMessage("1,\"b\":2")}}, "!a: not valid JSON"},
		{"extra without value", ash.Query{Extra: map[string]json.RawMessage{"a": nil}}, "!a: not valid JSON"},
		{"extra name no UTF-8", ash.Query{Extra: map[string]json.RawMessage{"\xff": json.RawMessage("1")}}, "!not valid UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			line, err := ash.EncodeCommand(test.command)
			checkEncoded(t, line, err, test.want)
		})
	}
}

func TestEncodeEvent(t *testing.T) {
	for _, test := range []struct {
		name  string
		event ash.Event
		want  string
	}{
		{"ready", ash.Ready{}, `{"ev":"ready"}`},
		{"message", ash.Message{Data: json.RawMessage(`{"b":1.0, "a":[1E5]}`)}, `{"ev":"message","data":{"b":1.0, "a":[1E5]}}`},
		{"message over lines", ash.Message{Data: json.RawMessage("\n{\n\t\"a\": \"\\n\"\r\n}\n")}, "{\"ev\":\"message\",\"data\":{ \t\"a\": \"\\n\"\r }}"},
		{"error", ash.Error{Text: "a\nb\xff"}, `{"ev":"error","error":"a\nb�"}`},
		{"done", ash.Done{SessionID: "s"}, `{"ev":"done","sessionId":"s"}`},
		{"nil", nil, "!no such event"},
		{"no data", ash.Message{}, "!data: not valid JSON"},
		{"data injected", ash.Message{Data: json.RawMessage(`1},{"ev":"done"`)}, "!data: not valid JSON"},
		{"data no UTF-8", ash.Message{Data: json.RawMessage("\"\xff\"")}, "!data: not valid UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			line, err := ash.EncodeEvent(test.event)
			checkEncoded(t, line, err, test.want)
		})
	}
}

func checkEncoded(t *testing.T, line []byte, err error, want string) {
	t.Helper()
	if part, isError := strings.CutPrefix(want, "!"); isError {
		if err == nil || !strings.Contains(err.Error(), part) || line != nil {
			t.Errorf("got %q, error %v, want an error with %q", line, err, part)
		}
		return
	}
	if err != nil || string(line) != want+"\n" {
		t.Errorf("\n got %q, error %v\nwant %q", line, err, want+"\n")
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, test := range []struct {
		line string
		want error
		text string
	}{
		{"", ash.ErrBadLine, "not valid JSON"},
		{"\xef\xbb\xbf{\"ev\":\"ready\"}", ash.ErrBadLine, "not valid JSON"},
		{"{\"ev\":\"error\",\"error\":\"\xff\"}", ash.ErrBadLine, "not valid UTF-8"},
		{`{"ev":"ready"}{"ev":"ready"}`, ash.ErrBadLine, "after top-level value"},
		{`{"ev":"ready"}}`, ash.ErrBadLine, "after top-level value"},
		{`{"ev":"ready",}`, ash.ErrBadLine, "not valid JSON"},
		{`{"ev":"ready"`, ash.ErrBadLine, "not valid JSON"},
		{strings.Repeat("[", 20000), ash.ErrBadLine, "exceeded max depth"},
		{`{"ev":"message","data":` + strings.Repeat("[", 20000), ash.ErrBadLine, "exceeded max depth"},
		{`{"ev":"message"}`, ash.ErrBadLine, "data is missing"},
		{`{"ev":"message","data":1,"data":2}`, ash.ErrBadLine, `"data" appears twice`},
		{`{"ev":"message","Data":1}`, ash.ErrBadLine, "data is missing"},
		{`{"ev":"error"}`, ash.ErrBadLine, "error is missing"},
		{`{"ev":"error","error":{}}`, ash.ErrBadLine, "error: want text, got an object"},
		{`{"ev":"done"}`, ash.ErrBadLine, "sessionId is missing"},
		{`{"ev":"done","sessionId":true}`, ash.ErrBadLine, "sessionId: want text, got true or false"},
		{`{"ev":"done","cmd":null}`, ash.ErrBadLine, "both cmd and ev"},
		{`{"cmd":"shutdown"}`, ash.ErrBadLine, "a command where an event belongs"},
		{`{"ev":"READY"}`, ash.ErrUnknownName, `event "READY"`},
		{`{"ev":"` + strings.Repeat("x", 1000) + `"}`, ash.ErrUnknownName, `"xxx`},
		{manyFields(), ash.ErrBadLine, "more than 1000 fields"},
	} {
		event, err := ash.DecodeEvent([]byte(test.line))
		if event != nil || !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("DecodeEvent(%.80q)\n got %v, error %v\nwant an error %v with %q", test.line, event, err, test.want, test.text)
		} else if len(err.Error()) > 200 {
			t.Errorf("DecodeEvent(%.80q): an error of %d bytes", test.line, len(err.Error()))
		}
	}
}

func manyFields() string {
	var line strings.Builder
	line.WriteString(`{"ev":"ready"`)
	for i := range 1000 {
		line.WriteString(`,"` + strings.Repeat("x", i) + `":0`)
	}
	line.WriteString("}")
	return line.String()
}

// addTranscriptLines gives a fuzz target the lines of every transcript to begin with.
func addTranscriptLines(f *testing.F) {
	lines := transcriptLines(f)
	if len(lines) == 0 {
		f.Fatal("no lines to begin with")
	}
	for _, line := range lines {
		f.Add([]byte(line))
	}
}

func FuzzDecodeCommand(f *testing.F) {
	addTranscriptLines(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		command, err := ash.DecodeCommand(line)
		checkDecoded(t, line, command == nil, err)
		if err != nil || bytes.ContainsRune(line, '\n') {
			return
		}
		encoded, err := ash.EncodeCommand(command)
		checkLine(t, encoded, err)
		again, err := ash.DecodeCommand(encoded)
		if err != nil || !reflect.DeepEqual(command, again) {
			t.Errorf("encoded as %q\n got %#v, error %v\nwant %#v", encoded, again, err, command)
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	addTranscriptLines(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		event, err := ash.DecodeEvent(line)
		checkDecoded(t, line, event == nil, err)
		if err != nil || bytes.ContainsRune(line, '\n') {
			return
		}
		if message, ok := event.(ash.Message); ok {
			var reference struct {
				Data json.RawMessage `json:"data"`
			}
			if err := json.Unmarshal(line, &reference); err != nil || !bytes.Contains(line, message.Data) {
				t.Errorf("data %q is not unchanged from %q, error %v", message.Data, line, err)
			}
		}
		encoded, err := ash.EncodeEvent(event)
		checkLine(t, encoded, err)
		again, err := ash.DecodeEvent(encoded)
		if err != nil || !reflect.DeepEqual(event, again) {
			t.Errorf("encoded as %q\n got %#v, error %v\nwant %#v", encoded, again, err, event)
		}
	})
}

// checkDecoded checks that decoding any line yields a value or one of two errors, and an error if
// the line is not JSON.
func checkDecoded(t *testing.T, line []byte, isNil bool, err error) {
	t.Helper()
	switch {
	case isNil != (err != nil):
		t.Errorf("%q: a value and an error, or neither: %v", line, err)
	case err != nil && !errors.Is(err, ash.ErrBadLine) && !errors.Is(err, ash.ErrUnknownName):
		t.Errorf("%q: got error %v, want %v or %v", line, err, ash.ErrBadLine, ash.ErrUnknownName)
	case err == nil && !json.Valid(line):
		t.Errorf("%q: read, though it is not JSON", line)
	}
}

func checkLine(t *testing.T, line []byte, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("the decoded value cannot be encoded: %v", err)
	} else if bytes.IndexByte(line, '\n') != len(line)-1 {
		t.Errorf("%q is not one line", line)
	}
}

func FuzzEncodeQuery(f *testing.F) {
	f.Add("hello", "s1", []byte(nil), "model", []byte(`"large"`))
	f.Add("", "", []byte(`[{"type":"text"}]`), "a\"b", []byte("{\"x\":1.0}"))
	f.Add("\xff", "\n", []byte("[\n1]"), "cmd", []byte("1,2"))
	f.Fuzz(func(t *testing.T, prompt, session string, blocks []byte, name string, value []byte) {
		query := ash.Query{Prompt: prompt, SessionID: session, Blocks: blocks}
		if name != "" {
			query.Extra = map[string]json.RawMessage{name: value}
		}
		line, err := ash.EncodeCommand(query)
		if err != nil {
			return
		}
		checkLine(t, line, nil)
		got, err := ash.DecodeCommand(line)
		query.Blocks = onOneLine(query.Blocks)
		if name != "" {
			query.Extra[name] = onOneLine(value)
		}
		if err != nil || !reflect.DeepEqual(got, ash.Command(query)) {
			t.Errorf("encoded as %q\n got %#v, error %v\nwant %#v", line, got, err, query)
		}
	})
}

func onOneLine(value json.RawMessage) json.RawMessage {
	if value == nil {
		return nil
	}
	return bytes.ReplaceAll(bytes.Trim(value, " \t\r\n"), []byte("\n"), []byte(" "))
}
