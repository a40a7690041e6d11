package schema

import (
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMessageJSON(t *testing.T) {
	tests := []struct {
		name string
		m    Message
		want string
	}{
		{"every field", golden, `{"id":"msg-20260313T1430Z-claude-a8f3","from":"claude","to":["codex","gemini"],"type":"review_feedback","priority":"P1",` +
			`"created_at_utc":"2026-03-13T14:30:00Z","expires_at":"2026-03-14T14:30:00Z","channel":"reviews","autonomy_hint":"auto_proceed",` +
			`"related_packet":"packets/review/1","related_pr":"42","conversation_id":"conv-20260313-claude-001",` +
			`"parent_message_id":"msg-20260313T1400Z-codex-b2e1","context_keys":"one\n  two\n","model":"m-1","turns":"3","input_tokens":"1000",` +
			`"output_tokens":"20","wall_time_s":"1.5","est_cost_usd":"0.02","subject":"Look at #42: it's \"fine\"",` +
			`"body":"First line.\n\n  Indented - [x]: # {y}\n"}`},
		{"one recipient", Message{ID: "a", To: []AgentName{"b"}, Body: TextValue("<&>")}, `{"id":"a","to":"b","body":"<&>"}`},
		{"nothing", Message{}, `{}`},
		{"structured", Message{Body: Value{Kind: Mapping, Pairs: []Pair{{"z", TextValue("1")}, {"a", Value{Kind: List, Items: []Value{{Kind: Null}, {Kind: List}, {Kind: Mapping}}}}}}},
			`{"body":{"z":"1","a":[null,[],{}]}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.m.MarshalJSON()
			if err != nil || string(got) != test.want {
				t.Errorf("JSON is %s (%v)\nwant %s", got, err, test.want)
			}
			var again Message
			if err := json.Unmarshal(got, &again); err != nil || !reflect.DeepEqual(again, test.m) {
				t.Errorf("it reads as %+v (%v), want %+v", again, err, test.m)
			}
		})
	}
}

func TestMessageJSONRefuses(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+2) + strings.Repeat("]", MaxDepth+2)
	for _, text := range []string{
		``, `{`, `null`, `[]`, `"x"`, `{"id":"a","id":"b"}`, `{"ID":"a"}`, `{"unknown":"x"}`, `{"id":{}}`, `{"id":null}`, `{"to":{}}`, `{"to":[["a"]]}`,
		`{"to":null}`, `{"body":{"a":1,"a":2}}`, `{"id":"a"} x`, `{"body":` + deep + `}`,
	} {
		m := Message{ID: "kept"}
		if err := json.Unmarshal([]byte(text), &m); err == nil || m.ID != "kept" {
			t.Errorf("%.40s reads as %+v (%v), want it refused and nothing changed", text, m, err)
		}
	}
	var m Message
	if err := json.Unmarshal([]byte(`{"related_pr":42,"subject":true,"body":{"n":1.50}}`), &m); err != nil || m.RelatedPR != "42" || m.Subject != "true" || m.Body.Get("n").Text != "1.50" {
		t.Errorf("numbers and booleans read as %+v (%v), want their text", m, err)
	}
}

// TestJSONOfADeepBody checks that the cost of a nested value grows with its text, not with its text
// times its depth.
func TestJSONOfADeepBody(t *testing.T) {
	body := TextValue(strings.Repeat("x", MaxFileSize))
	for range MaxDepth {
		body = Value{Kind: List, Items: []Value{body}}
	}
	m := Message{Body: body}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := m.MarshalJSON(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used, limit := after.TotalAlloc-before.TotalAlloc, uint64(64*MaxFileSize); used > limit {
		t.Errorf("a body of %d bytes took %d bytes to write, want at most %d", MaxFileSize, used, limit)
	}
}

// FuzzMessageJSON checks that the JSON of any message reads as that message.
func FuzzMessageJSON(f *testing.F) {
	f.Add("msg-20260313T1430Z-claude-a8f3", "codex", "gemini", "Hi", "body\n", "key", uint8(0))
	f.Add("", "", "", "\u2028<&>\"\\", "\x00\r\n\u0085", "", uint8(1))
	f.Add("a", "b", "", "", "", "k", uint8(2))
	f.Add("a", "b", "b", "\U0001f600", "x", "body", uint8(3))
	f.Fuzz(func(t *testing.T, id, to, second, subject, text, key string, shape uint8) {
		for _, s := range []string{id, to, second, subject, text, key} {
			if !utf8.ValidString(s) {
				return
			}
		}
		m := Message{ID: ID(id), Subject: subject, ContextKeys: text}
		for _, name := range []string{to, second} {
			if name != "" {
				m.To = append(m.To, AgentName(name))
			}
		}
		switch shape % 4 {
		case 0:
			m.Body = TextValue(text)
		case 1:
			m.Body = Value{Kind: Mapping, Pairs: []Pair{{key, TextValue(text)}, {key + "2", Value{Kind: Null}}}}
		case 2:
			m.Body = Value{Kind: List, Items: []Value{TextValue(text), {Kind: Mapping, Pairs: []Pair{{key, Value{Kind: List}}}}}}
		}
		data, err := json.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		var again Message
		if err := json.Unmarshal(data, &again); err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%s reads as %+v (%v), want %+v", data, again, err, m)
		}
	})
}
