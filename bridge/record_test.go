package bridge

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

func TestGenerateID(t *testing.T) {
	t.Parallel()
	var vectors []struct {
		Type                  Type
		From, To, Content, ID string
	}
	if err := json.Unmarshal([]byte(mustRead(t, "testdata/ids.json")), &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range vectors {
		if got := GenerateID(v.Type, v.From, v.To, v.Content); got != v.ID {
			t.Errorf("%+v: want %s, got %s", v, v.ID, got)
		}
	}
}

// foreignLines are what other writers put into logs, with the record that is read.
var foreignLines = []struct {
	name, line string
	want       Record
}{
	{
		"as AgentPair writes it",
		`{"id":"opaque","type":"signal","from":"codex","content":"x <b>","signal":"DONE","metadata":{"k": [1, {"a":null}]},"timestamp":"2024-03-28T10:00:00.123456789Z","run_id":3,"iteration":2}`,
		Record{
			ID: "opaque", RunID: 3, Type: TypeSignal, From: "codex", Content: "x <b>", Signal: SignalDone,
			Timestamp: "2024-03-28T10:00:00.123456789Z", Metadata: json.RawMessage(`{"k": [1, {"a":null}]}`), Iteration: 2,
		},
	},
	{
		"unknown fields, spaces, escapes, odd time",
		`{ "extra" : [1,{"x":"}]\""}] ,"id":"i", "t\u0079pe":"task","content":"\u00fc\ud83d\ude00\n" , "timestamp":"yesterday", "z":-1.50e3,"w":true}`,
		Record{ID: "i", Type: TypeTask, Content: "ü😀\n", Timestamp: "yesterday"},
	},
	{"without an id", `{"type":"chat","from":"a","to":"b","content":"c"}`, Record{ID: GenerateID(TypeChat, "a", "b", "c"), Type: TypeChat, From: "a", To: "b", Content: "c"}},
	{"null id", `{"id":null,"type":"chat"}`, Record{ID: GenerateID(TypeChat, "", "", ""), Type: TypeChat}},
	{"unknown type and signal", `{"id":"i","type":"gossip","signal":"MAYBE"}`, Record{ID: "i", Type: "gossip", Signal: "MAYBE"}},
	{"nulls", `{"id":"i","type":"task","to":null,"run_id":null,"metadata":null}`, Record{ID: "i", Type: TypeTask, Metadata: json.RawMessage("null")}},
	{"whole numbers in other words", `{"id":"i","type":"task","run_id":1e2,"iteration":3.0}`, Record{ID: "i", Type: TypeTask, RunID: 100, Iteration: 3}},
	{"a field twice", `{"id":"i","type":"task","to":"a","to":"b"}`, Record{ID: "i", Type: TypeTask, To: "b"}},
	{"names in other case are other names", `{"id":"i","type":"task","TO":"a","Content":"b"}`, Record{ID: "i", Type: TypeTask}},
	{"not UTF-8", "{\"id\":\"i\",\"type\":\"task\",\"content\":\"a\xffb\"}", Record{ID: "i", Type: TypeTask, Content: "a\ufffdb"}},
}

func TestParseRecord(t *testing.T) {
	t.Parallel()
	for _, test := range foreignLines {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseRecord([]byte(test.line))
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := got.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(test.name, " id") && string(encoded) != test.line {
				t.Errorf("want the line back, got %s", encoded)
			}
			if got.line = ""; !reflect.DeepEqual(got, test.want) {
				t.Errorf("want %+v, got %+v", test.want, got)
			}
		})
	}
}

func TestParseRecordRefuses(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                              "blank line",
		"  \t":                          "blank line",
		"null":                          "not a JSON object",
		"[]":                            "not a JSON object",
		`"text"`:                        "not a JSON object",
		"garbage":                       "not JSON",
		`{"id":"i","type":"task"`:       "not JSON",
		`{"id":"i"}{"id":"j"}`:          "not JSON",
		`{"id":"i",}`:                   "not JSON",
		`{}`:                            "without id and type",
		`{"from":"a","content":"b"}`:    "without id and type",
		`{"id":7}`:                      "id: is not a JSON string",
		`{"id":"i","content":{}}`:       "content: is not a JSON string",
		`{"id":"i","run_id":"1"}`:       "run_id: is not an integer",
		`{"id":"i","run_id":1.5}`:       "run_id: is not an integer",
		`{"id":"i","run_id":1e20}`:      "run_id: is not an integer",
		`{"id":"i","run_id":1e999}`:     "run_id: is not an integer",
		`{"id":"i","iteration":[]}`:     "iteration: is not an integer",
		`{"id":"i","timestamp":17}`:     "timestamp: is not a JSON string",
		strings.Repeat(`{"a":`, 20_000): "not JSON",
	} {
		if r, err := ParseRecord([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: want an error with %q, got %+v, %v", line, want, r, err)
		}
	}
}

// TestEncodeMissingID checks that a line without an id gets one, and keeps everything else.
func TestEncodeMissingID(t *testing.T) {
	t.Parallel()
	line := `{ "x" : [ ],"id":"","type":"chat","from":"a","to":"b","content":"c" }`
	missing, err := ParseRecord([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	id := GenerateID(TypeChat, "a", "b", "c")
	got, err := missing.Encode()
	if want := line[:len(line)-1] + `,"id":"` + id + `"}`; err != nil || string(got) != want {
		t.Errorf("want %s, got %s, %v", want, got, err)
	}
	if again, err := ParseRecord(got); err != nil || again.ID != id {
		t.Errorf("it reads back as %+v, %v", again, err)
	}
}

func TestParseRecordFromSeveralLines(t *testing.T) {
	t.Parallel()
	r, err := ParseRecord([]byte("{\r\n  \"id\": \"i\",\n  \"type\": \"task\"\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Encode(); err != nil || string(got) != `{"id":"i","type":"task"}` {
		t.Errorf("want one line, got %s, %v", got, err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		wrong func(*Record)
		field string
	}{
		{"right", func(*Record) {}, ""},
		{"broadcast", func(r *Record) { r.To = "" }, ""},
		{"signal", func(r *Record) { r.Type, r.Signal = TypeSignal, SignalFail }, ""},
		{"metadata", func(r *Record) { r.Metadata = json.RawMessage(`{}`) }, ""},
		{"no timestamp", func(r *Record) { r.Timestamp = "" }, ""},
		{"no type", func(r *Record) { r.Type = "" }, "type"},
		{"unknown type", func(r *Record) { r.Type = "TASK" }, "type"},
		{"no sender", func(r *Record) { r.From = "" }, "from"},
		{"to itself", func(r *Record) { r.To = r.From }, "to"},
		{"unknown signal", func(r *Record) { r.Signal = "OK" }, "signal"},
		{"no signal", func(r *Record) { r.Type = TypeSignal }, "signal"},
		{"timestamp", func(r *Record) { r.Timestamp = "today" }, "timestamp"},
		{"metadata is a list", func(r *Record) { r.Metadata = json.RawMessage(`[]`) }, "metadata"},
		{"metadata is nothing", func(r *Record) { r.Metadata = json.RawMessage{} }, "metadata"},
		{"content", func(r *Record) { r.Content = "\xff" }, "content"},
		{"receiver", func(r *Record) { r.To = "\xff" }, "to"},
	} {
		r := task("a", "b", "c")
		test.wrong(&r)
		err := r.Validate()
		if (err != nil) != (test.field != "") || err != nil && !strings.HasPrefix(err.Error(), test.field+": ") {
			t.Errorf("%s: want an error about %q, got %v", test.name, test.field, err)
		}
	}
}

func TestRecordSchema(t *testing.T) {
	t.Parallel()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat = true
	if err := compiler.AddResource("record.json", bytes.NewReader(RecordSchema())); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("record.json")
	if err != nil {
		t.Fatal(err)
	}
	signal := task("a", "", "c")
	signal.Type = TypeSignal
	pass := signal
	pass.Signal = SignalPass
	unknown, odd := task("a", "b", "c"), task("a", "b", "c")
	unknown.Type, odd.Timestamp = "gossip", "today"
	full := task("a", "b", "c")
	full.Metadata, full.Iteration = json.RawMessage(`{"oacp":{}}`), 3
	for name, r := range map[string]Record{
		"task": task("a", "b", "c"), "full": full, "pass": pass,
		"no signal": signal, "type": unknown, "time": odd, "sender": task("", "b", "c"),
	} {
		r.ID = GenerateID(r.Type, r.From, r.To, r.Content)
		line, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(line, &value); err != nil {
			t.Fatal(err)
		}
		if want, got := r.Validate(), schema.Validate(value); (want == nil) != (got == nil) {
			t.Errorf("%s: Validate says %v, the schema %v", name, want, got)
		}
	}
	var document struct {
		Properties map[string]struct{ Title, Description string }
	}
	if err := json.Unmarshal(RecordSchema(), &document); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"id", "run_id", "type", "from", "to", "content", "signal", "timestamp", "metadata", "iteration"} {
		if p := document.Properties[name]; p.Title == "" || p.Description == "" {
			t.Errorf("field %s: want a title and a description, got %+v", name, p)
		}
	}
}

// FuzzParseRecord checks that a parsed record is encoded as the same line, and that this line parses as
// the same record.
func FuzzParseRecord(f *testing.F) {
	for _, test := range foreignLines {
		f.Add([]byte(test.line))
	}
	f.Add([]byte(`{"id":"a","type":"b","metadata":{},"iteration":0}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseRecord(line)
		if err != nil {
			return
		}
		if !json.Valid(line) {
			t.Fatalf("accepted %q", line)
		}
		encoded, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(encoded, "\r\n") {
			t.Fatalf("%q is more than one line", encoded)
		}
		own := bytes.TrimSpace(line)
		if !bytes.ContainsAny(line, "\r\n") && !bytes.HasPrefix(encoded, own[:len(own)-1]) {
			t.Fatalf("want %q back, got %q", line, encoded)
		}
		again, err := ParseRecord(encoded)
		if err != nil {
			t.Fatalf("%q: %v", encoded, err)
		}
		r.line, again.line = "", ""
		if !reflect.DeepEqual(r, again) {
			t.Fatalf("want %+v, got %+v", r, again)
		}
	})
}

// FuzzEncode checks that a valid record made here is one line that reads back as the same record.
func FuzzEncode(f *testing.F) {
	f.Add("claude", "codex", "a \"quoted\" text\r\n\u2028\x00", `{"k":"\n"}`, 7)
	f.Add("a", "", "", "", 0)
	f.Add("claude", "codex", "x", "{\"k\":\"\xff\"}", 1)
	f.Fuzz(func(t *testing.T, from, to, content, metadata string, number int) {
		r := task(from, to, content)
		r.ID, r.RunID, r.Iteration = GenerateID(r.Type, from, to, content), number, number
		if metadata != "" {
			r.Metadata = json.RawMessage(metadata)
		}
		if r.Validate() != nil {
			return
		}
		line, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(line, "\r\n") {
			t.Fatalf("%q is more than one line", line)
		}
		again, err := ParseRecord(line)
		if err != nil {
			t.Fatal(err)
		}
		again.line = ""
		if bytes.ContainsAny(r.Metadata, "\r\n \t") { // may have been compacted
			r.Metadata, again.Metadata = nil, nil
		}
		if !reflect.DeepEqual(r, again) {
			t.Fatalf("want %+v, got %+v", r, again)
		}
	})
}
