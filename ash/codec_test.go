package ash

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestEncodeCommand(t *testing.T) {
	for _, test := range []struct {
		name    string
		command command
		want    string // or, with a leading !, a part of the error
	}{
		{"query", command{name: "query", Query: Query{Prompt: "a <b> & \"c\"\n\u2028", SessionID: "s"}}, `{"cmd":"query","prompt":"a <b> & \"c\"\n\u2028","sessionId":"s"}`},
		{"blocks", command{name: "query", Query: Query{Blocks: json.RawMessage(" [1,\n2] "), SessionID: "s"}}, `{"cmd":"query","prompt":[1, 2],"sessionId":"s"}`},
		{"no blocks", command{name: "query", Query: Query{Blocks: json.RawMessage("[]")}}, `{"cmd":"query","prompt":[],"sessionId":""}`},
		{"interrupt", command{name: "interrupt"}, `{"cmd":"interrupt"}`},
		{"shutdown", command{name: "shutdown"}, `{"cmd":"shutdown"}`},
		{"blocks empty", command{name: "query", Query: Query{Blocks: json.RawMessage{}}}, "!prompt: not valid JSON"},
		{"blocks no JSON", command{name: "query", Query: Query{Blocks: json.RawMessage(`[1}`)}}, "!prompt: not valid JSON"},
		{"blocks no UTF-8", command{name: "query", Query: Query{Blocks: json.RawMessage("[\"\xff\"]")}}, "!prompt: not valid UTF-8"},
		{"prompt no UTF-8", command{name: "query", Query: Query{Prompt: "\xff"}}, "!prompt: not valid UTF-8"},
		{"session no UTF-8", command{name: "query", Query: Query{SessionID: "\xff"}}, "!sessionId: not valid UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			line, err := test.command.encode()
			checkEncoded(t, line, err, test.want)
		})
	}
}

func TestEncodeEvent(t *testing.T) {
	for _, test := range []struct {
		name  string
		event event
		want  string
	}{
		{"ready", event{name: "ready"}, `{"ev":"ready"}`},
		{"message", event{name: "message", data: json.RawMessage(`{"b":1.0, "a":[1E5]}`)}, `{"ev":"message","data":{"b":1.0, "a":[1E5]}}`},
		{"message over lines", event{name: "message", data: json.RawMessage("\n{\n\t\"a\": \"\\n\"\r\n}\n")}, "{\"ev\":\"message\",\"data\":{ \t\"a\": \"\\n\"\r }}"},
		{"error", event{name: "error", text: "a\nb\xff"}, `{"ev":"error","error":"a\nb�"}`},
		{"done", event{name: "done", session: "s"}, `{"ev":"done","sessionId":"s"}`},
		{"no data", event{name: "message"}, "!data: not valid JSON"},
		{"data injected", event{name: "message", data: json.RawMessage(`1},{"ev":"done"`)}, "!data: not valid JSON"},
		{"data no UTF-8", event{name: "message", data: json.RawMessage("\"\xff\"")}, "!data: not valid UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			line, err := test.event.encode()
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
		{"", errBadLine, "not valid JSON"},
		{"\xef\xbb\xbf{\"ev\":\"ready\"}", errBadLine, "not valid JSON"},
		{"{\"ev\":\"error\",\"error\":\"\xff\"}", errBadLine, "not valid UTF-8"},
		{`{"ev":"ready"}{"ev":"ready"}`, errBadLine, "after top-level value"},
		{`{"ev":"ready"}}`, errBadLine, "after top-level value"},
		{`{"ev":"ready",}`, errBadLine, "not valid JSON"},
		{`{"ev":"ready"`, errBadLine, "not valid JSON"},
		{strings.Repeat("[", 20000), errBadLine, "exceeded max depth"},
		{`{"ev":"message","data":` + strings.Repeat("[", 20000), errBadLine, "exceeded max depth"},
		{`{"ev":"message"}`, errBadLine, "data is missing"},
		{`{"ev":"message","Data":1}`, errBadLine, "data is missing"},
		{`{"ev":"error"}`, errBadLine, "error is missing"},
		{`{"ev":"error","error":{}}`, errBadLine, "error: want text"},
		{`{"ev":"done"}`, errBadLine, "sessionId is missing"},
		{`{"ev":"done","sessionId":true}`, errBadLine, "sessionId: want text"},
		{`{"ev":"done","cmd":null}`, errBadLine, "both cmd and ev"},
		{`{"cmd":"shutdown"}`, errBadLine, "ev is missing"},
		{`{"ev":"READY"}`, errUnknownName, `event "READY"`},
		{`{"ev":"` + strings.Repeat("x", 1000) + `"}`, errUnknownName, `"xxx`},
	} {
		event, err := decodeEvent([]byte(test.line))
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("decodeEvent(%.80q)\n got %v, error %v\nwant an error %v with %q", test.line, event, err, test.want, test.text)
		} else if len(err.Error()) > 200 {
			t.Errorf("decodeEvent(%.80q): an error of %d bytes", test.line, len(err.Error()))
		}
	}
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
		decoded, err := decodeCommand(line)
		checkDecoded(t, line, err)
		if err != nil || bytes.ContainsRune(line, '\n') || decoded.name == "resume" {
			return
		}
		decoded.Options = nil // a client sends none
		encoded, err := decoded.encode()
		checkLine(t, encoded, err)
		again, err := decodeCommand(encoded)
		if err != nil || !reflect.DeepEqual(decoded, again) {
			t.Errorf("encoded as %q\n got %#v, error %v\nwant %#v", encoded, again, err, decoded)
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	addTranscriptLines(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		decoded, err := decodeEvent(line)
		checkDecoded(t, line, err)
		if err != nil || bytes.ContainsRune(line, '\n') {
			return
		}
		if decoded.name == "message" {
			var reference struct {
				Data json.RawMessage `json:"data"`
			}
			if err := json.Unmarshal(line, &reference); err != nil || !bytes.Contains(line, decoded.data) {
				t.Errorf("data %q is not unchanged from %q, error %v", decoded.data, line, err)
			}
		}
		encoded, err := decoded.encode()
		checkLine(t, encoded, err)
		again, err := decodeEvent(encoded)
		if err != nil || !reflect.DeepEqual(decoded, again) {
			t.Errorf("encoded as %q\n got %#v, error %v\nwant %#v", encoded, again, err, decoded)
		}
	})
}

// checkDecoded checks that decoding any line fails with one of two errors, if at all, and fails if the
// line is not JSON.
func checkDecoded(t *testing.T, line []byte, err error) {
	t.Helper()
	switch {
	case err != nil && !errors.Is(err, errBadLine) && !errors.Is(err, errUnknownName):
		t.Errorf("%q: got error %v, want %v or %v", line, err, errBadLine, errUnknownName)
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
	f.Add("hello", "s1", []byte(nil))
	f.Add("", "", []byte(`[{"type":"text"}]`))
	f.Add("\xff", "\n", []byte("[\n1]"))
	f.Fuzz(func(t *testing.T, prompt, session string, blocks []byte) {
		query := command{name: "query", Query: Query{Prompt: prompt, SessionID: session, Blocks: blocks}}
		if blocks != nil {
			query.Prompt = ""
		}
		line, err := query.encode()
		if trimmed := bytes.TrimLeft(blocks, " \t\r\n"); err != nil || blocks != nil && trimmed[0] != '[' {
			return
		}
		checkLine(t, line, nil)
		got, err := decodeCommand(line)
		query.Blocks = onOneLine(query.Blocks)
		if err != nil || !reflect.DeepEqual(got, query) {
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
