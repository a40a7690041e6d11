package live

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

func TestReadEvent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		input string
		want  Event
	}{
		"all fields": {
			`{"session_id":"a-B_9","cwd":"/x","hook_event_name":"Stop","source":"clear","stop_hook_active":true,"file_path":"/y","event":"add","agent_id":"z"}`,
			Event{Name: "Stop", Session: "a-B_9", Dir: "/x", Source: "clear", StopActive: true, Path: "/y", Change: "add", Subagent: "z"},
		},
		"an unknown event":   {`{"session_id":"s","hook_event_name":"Later"}`, Event{Name: "Later", Session: "s"}},
		"other types":        {`{"session_id":"s","hook_event_name":"Stop","stop_hook_active":"yes","cwd":7,"source":null,"event":{"a":[1]}}`, Event{Name: "Stop", Session: "s"}},
		"fields in fields":   {`{"tool_input":{"session_id":"x","agent_id":"y"},"session_id":"s","hook_event_name":"Stop"}`, Event{Name: "Stop", Session: "s"}},
		"a field of 20 MB":   {`{"session_id":"s","hook_event_name":"PostToolUse","tool_response":"` + strings.Repeat("x", 20<<20) + `"}`, Event{Name: "PostToolUse", Session: "s"}},
		"a large field":      {`{"tool_response":"` + strings.Repeat("x", 1<<20) + `","session_id":"s","hook_event_name":"PostToolUse"}`, Event{Name: "PostToolUse", Session: "s"}},
		"many deep fields":   {`{"session_id":"s","hook_event_name":"PostToolUse","tool_response":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}`, Event{Name: "PostToolUse", Session: "s"}},
		"invalid characters": {"{\"session_id\":\"s\",\"hook_event_name\":\"Stop\",\"cwd\":\"/\xff\"}", Event{Name: "Stop", Session: "s", Dir: "/\ufffd"}},
	} {
		input := strings.NewReader(test.input)
		got, err := ReadEvent(input)
		if err != nil || got != test.want || input.Len() > 0 {
			t.Errorf("%s: read %+v (%v, %d bytes left), want %+v", name, got, err, input.Len(), test.want)
		}
	}
}

func TestReadNoEvent(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "null", "7", "[]", `"Stop"`, "{", "{}", `{"hook_event_name":"Stop"}`, `{"session_id":"s"}`, `{"session_id":"","hook_event_name":"Stop"}`,
		`{"session_id":7,"hook_event_name":"Stop"}`, `{"session_id":"s","hook_event_name":"Stop"`, `{"session_id":"s","hook_event_name":"Stop",}`,
		`{"session_id":"../s","hook_event_name":"Stop"}`, `{"session_id":"a/b","hook_event_name":"Stop"}`, `{"session_id":"..","hook_event_name":"Stop"}`,
		`{"session_id":"a.b","hook_event_name":"Stop"}`, `{"session_id":"ä","hook_event_name":"Stop"}`, `{"session_id":"a\u0000","hook_event_name":"Stop"}`,
		`{"session_id":"` + strings.Repeat("x", 129) + `","hook_event_name":"Stop"}`,
		`{"tool_response":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,"session_id":"s","hook_event_name":"Stop"}`,
		strings.Repeat(" ", maxEvent) + `{"session_id":"s","hook_event_name":"Stop"}`,
	} {
		input := strings.NewReader(text)
		if e, err := ReadEvent(input); !errors.Is(err, errEvent) || e != (Event{}) || input.Len() > 0 {
			t.Errorf("%.80q: read %+v (%v), want errEvent", text, e, err)
		}
	}
	failure := errors.New("no input")
	half := io.MultiReader(strings.NewReader(`{"session_id":"s","hook_event_name":"Stop"`), iotest.ErrReader(failure))
	if e, err := ReadEvent(half); err == nil || e != (Event{}) {
		t.Errorf("half an event is read as %+v (%v)", e, err)
	}
}

// FuzzHook passes any input to a hook twice. It never fails in a way that a program takes for an answer, and
// it shows nothing twice, unless the session begins anew or its prompt may have been taken back.
func FuzzHook(f *testing.F) {
	for _, program := range Programs() {
		for _, event := range samples(f, program) {
			f.Add(event)
		}
	}
	f.Add([]byte(`{"session_id":"s","hook_event_name":"Later","source":7}`))
	f.Add([]byte(`{"session_id":"../s","hook_event_name":"Stop"}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		e, err := ReadEvent(bytes.NewReader(input))
		if err != nil {
			return
		}
		for _, program := range Programs() {
			synctest.Test(t, func(t *testing.T) {
				h := newHooks(t, program)
				h.arrive(h.ask("m001"))
				count := 0
				for range 2 {
					a, err := h.handle(e)
					if err != nil {
						t.Errorf("%+v: %v", e, err)
					}
					count += len(named(shown(t, e.Name, a)))
				}
				if again := e.Name == SessionStart && e.Source == "clear" || e.Name == UserPromptSubmit; count > 1 && !again {
					t.Errorf("%+v shows one message %d times", e, count)
				}
			})
		}
	})
}
