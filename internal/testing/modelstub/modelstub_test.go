package modelstub

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func post(t *testing.T, s *Server, path, body string) (int, string, error) {
	t.Helper()
	response, err := http.Post(s.URL()+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

func TestRequests(t *testing.T) {
	tests := []struct {
		name, path, body string
		want             Request
	}{
		{
			name: "messages, prompt", path: "/v1/messages",
			body: `{"model":"m","system":[{"type":"text","text":"a"}],"tools":[{"name":"Bash"}],"messages":[
				{"role":"user","content":[{"type":"text","text":"<system-reminder>be brief</system-reminder>"},{"type":"text","text":"one"}]},
				{"role":"assistant","content":[{"type":"text","text":"yes"}]},{"role":"user","content":"two"},{"role":"system","content":"x"}]}`,
			want: Request{API: Messages, Model: "m", Tools: []string{"Bash"}, Prompts: []string{"one", "two"}, Prompt: "two",
				Context: []string{"a", "<system-reminder>be brief</system-reminder>", "x"}},
		},
		{
			name: "messages, tool result", path: "/v1/messages",
			body: `{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"tool_use"}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"out"}]}]}]}`,
			want: Request{API: Messages, Prompts: []string{"one"}, Prompt: "one", Results: []ToolResult{{"t", "out"}}},
		},
		{
			name: "responses, prompt", path: "/v1/responses",
			body: `{"model":"m","prompt_cache_key":"k","tools":[{"type":"function","name":"f"},{"type":"namespace","name":"n","tools":[{"name":"g"}]}],"instructions":"a","input":[
				{"type":"message","role":"developer","content":[{"type":"input_text","text":"b"},{"type":"input_text","text":"c"}]},
				{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]},
				{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}]}`,
			want: Request{API: Responses, Session: "k", Model: "m", Tools: []string{"f", "n.g"}, Prompts: []string{"one"}, Prompt: "one",
				Context: []string{"a", "b", "c", "<environment_context>"}},
		},
		{
			name: "responses, tool result", path: "/v1/responses",
			body: `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]},
				{"type":"function_call","call_id":"c"},{"type":"function_call_output","call_id":"c","output":"out"}]}`,
			want: Request{API: Responses, Prompts: []string{"one"}, Prompt: "one", Results: []ToolResult{{"c", "out"}}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := Start(t, Answers(t, Reply{Text: "hello"}))
			if status, body, err := post(t, s, test.path, test.body); status != http.StatusOK || err != nil || !strings.Contains(body, `"he"`) || !strings.Contains(body, `"llo"`) {
				t.Errorf("answer %d %q (%v), want hello in two pieces", status, body, err)
			}
			got := s.Requests()[0]
			got.Body = nil
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("request %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestTitle checks that the script does not see the request with which codex names a conversation.
func TestTitle(t *testing.T) {
	s := Start(t, Answers(t))
	status, body, err := post(t, s, "/v1/responses", `{"input":[{"type":"message","role":"user","content":"Generate a concise, single-line task title of one"}]}`)
	if status != http.StatusOK || err != nil || !strings.Contains(body, "title") || len(s.Requests()) != 0 {
		t.Errorf("answer %d %q (%v), requests %v; want a title, and no request", status, body, err, s.Requests())
	}
}

// TestAwait checks that Await finds a request that was made before, and one that is made after it
// began to wait.
func TestAwait(t *testing.T) {
	s := Start(t, Answers(t, Reply{}, Reply{}))
	about := func(prompt string) func(Request) bool {
		return func(r Request) bool { return r.Prompt == prompt }
	}
	ask := func(prompt string) error {
		response, err := http.Post(s.URL()+"/v1/messages", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"`+prompt+`"}]}`))
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	if err := ask("one"); err != nil {
		t.Fatal(err)
	}
	waits, asked := make(chan struct{}, 2), make(chan error)
	go func() {
		<-waits // Await has seen the first request
		asked <- ask("two")
	}()
	got := s.Await(t, func(r Request) bool {
		waits <- struct{}{}
		return about("two")(r)
	})
	if err := <-asked; err != nil || got.Prompt != "two" {
		t.Errorf("found the prompt %q (%v), want two", got.Prompt, err)
	}
	if got := s.Await(t, about("one")); got.Prompt != "one" {
		t.Errorf("found the prompt %q, want one", got.Prompt)
	}
}

func TestFailure(t *testing.T) {
	s := Start(t, Answers(t, Reply{Failure: &Failure{Status: 429, Type: "rate_limit_error", Message: "slow down"}}))
	status, body, err := post(t, s, "/v1/messages", `{}`)
	if status != 429 || err != nil || !strings.Contains(body, `"rate_limit_error"`) || !strings.Contains(body, `"slow down"`) {
		t.Errorf("answer %d %q (%v), want status 429, type and message", status, body, err)
	}
}

func TestToolCalls(t *testing.T) {
	reply := Reply{Calls: []ToolCall{{Name: "edit", Input: map[string]any{"n": 1}}, {Name: "files.patch", Input: "free"}}}
	s := Start(t, Answers(t, reply, reply))
	for path, wants := range map[string][]string{
		"/v1/messages":  {`"tool_use"`, `"{\"n"`, `"\":1}"`, `"edit"`},
		"/v1/responses": {`"function_call"`, `"{\"n\":1}"`, `"custom_tool_call"`, `"namespace":"files"`, `"name":"patch"`, `"input":"free"`},
	} {
		_, body, err := post(t, s, path, `{}`)
		for _, want := range wants {
			if err != nil || !strings.Contains(body, want) {
				t.Errorf("%s: answer %s (%v), want %s in it", path, body, err, want)
			}
		}
	}
}

func TestHoldAndCut(t *testing.T) {
	hold := make(chan struct{})
	s := Start(t, func(_ context.Context, request Request) Reply {
		if request.Model == "cut" {
			return Reply{Text: "half of it", Cut: true}
		}
		close(hold)
		return Reply{Text: "held", Hold: hold}
	})
	if _, body, err := post(t, s, "/v1/messages", `{"model":"held"}`); err != nil || !strings.Contains(body, "message_stop") {
		t.Errorf("answer %q (%v), want the whole answer after the release", body, err)
	}
	if _, body, err := post(t, s, "/v1/responses", `{"model":"cut"}`); !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(body, "completed") {
		t.Errorf("answer %q (%v), want it to break off", body, err)
	}
}

// complaints is a test that records its failures.
type complaints struct {
	testing.TB
	said []string
}

func (c *complaints) Errorf(format string, _ ...any) { c.said = append(c.said, format) }

// TestNothingElseIsReached checks that requests for other addresses through the proxy fail.
func TestNothingElseIsReached(t *testing.T) {
	c := &complaints{TB: t}
	s := Start(c, Answers(t))
	proxy, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	defer client.CloseIdleConnections()
	for _, address := range []string{"http://somewhere.example/", "https://somewhere.example/"} {
		if response, err := client.Get(address); err == nil {
			if response.Body.Close(); response.StatusCode != http.StatusForbidden {
				t.Errorf("%s: status %d, want 403", address, response.StatusCode)
			}
		}
	}
	if len(c.said) != 2 {
		t.Errorf("the test has the failures %q, want two", c.said)
	}
}
