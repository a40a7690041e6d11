// Package modelstub replaces the model of claude and codex in tests. It is a server on the loopback
// interface with the streaming Messages and Responses APIs, whose answers come from a script.
package modelstub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Script returns the answer to a request. It may be called from several goroutines. The context ends
// when the program closes the connection or the test ends.
type Script func(ctx context.Context, request Request) Reply

// The APIs of requests.
const (
	Messages  = "messages"
	Responses = "responses"
	Gemini    = "gemini"
)

// Request is a request of a program.
type Request struct {
	// API is Messages (claude), Responses (codex) or Gemini.
	API string
	// Session is the program's own id of its session.
	Session string
	Model   string
	// Prompt is the text of the newest prompt in the conversation, without additions of the program.
	Prompt string
	// Prompts are the texts of all prompts, oldest first.
	Prompts []string
	// Results are the results of the tools that the model called last, unless the prompt is newer.
	Results []ToolResult
	// Context are the other texts, oldest first, which the program and its hooks add.
	Context []string
	// Tools are the names of the tools that the model may call.
	Tools []string
	// Body is the body of the request.
	Body json.RawMessage
}

// ToolResult is the result of a tool.
type ToolResult struct {
	ID     string
	Output string
}

// Reply is an answer of the model. The zero value is an answer without text.
type Reply struct {
	Text string
	// Calls are the tools to call after the text.
	Calls []ToolCall
	// Failure, if not nil, is sent instead.
	Failure *Failure
	// Hold, if not nil, delays the end of the answer until it is closed or the program closes the connection.
	Hold <-chan struct{}
	// Cut breaks the connection in the middle of the answer.
	Cut bool
	// Stop is the reason why the answer of the Messages API ends, if it is not the usual one.
	Stop string
}

// ToolCall calls a tool.
type ToolCall struct {
	Name string
	// Input is the tool's input: a string for a free-form tool of codex, anything else as JSON.
	Input any
}

// Failure is an error answer of the API.
type Failure struct {
	Status  int
	Type    string
	Message string
	// ContentType and Body, if set, are sent instead, like the error page of a proxy.
	ContentType string
	Body        string
	// Header has further fields.
	Header map[string]string
}

// The tokens that every answer reports.
const (
	InputTokens  = 100
	cachedTokens = 20 // of the input tokens
	OutputTokens = 7
)

// Answers returns a script with the replies in order. It fails the test if there are more requests than
// replies.
func Answers(t testing.TB, replies ...Reply) Script {
	var mu sync.Mutex
	next := 0
	return func(_ context.Context, request Request) Reply {
		mu.Lock()
		defer mu.Unlock()
		if next == len(replies) {
			t.Errorf("the model was asked %d times; the last prompt was %q", next+1, request.Prompt)
			return Reply{Failure: &Failure{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: "the script is over"}}
		}
		next++
		return replies[next-1]
	}
}

// Server is a running model.
type Server struct {
	script Script
	http   *httptest.Server
	stop   context.CancelFunc
	// looksFor are the hosts that a program may try to reach, in vain.
	looksFor []string

	mu       sync.Mutex
	requests []Request
	// asked is closed, and replaced, with each request.
	asked  chan struct{}
	serial int
}

// Start runs a server until the test ends. It removes variables that configure the programs from the
// environment. The test fails if a program with the environment of ClaudeEnv or CodexEnv tries to reach
// another host.
func Start(t testing.TB, script Script) *Server {
	t.Helper()
	isolate(t)
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{script: script, stop: stop, asked: make(chan struct{}), looksFor: []string{announcements}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) {
		s.serve(ctx, w, r, readMessages, streamMessages)
	})
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) {
		s.serve(ctx, w, r, readResponses, streamResponses)
	})
	mux.HandleFunc("POST /v1beta/models/{call}", func(w http.ResponseWriter, r *http.Request) {
		s.serve(ctx, w, r, readGemini, streamGemini)
	})
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The server is also the programs' proxy, so it sees requests to other hosts.
		if r.Method == http.MethodConnect || r.URL.Host != "" {
			if !slices.Contains(s.looksFor, r.Host) {
				t.Errorf("a program wanted to reach %s", r.Host)
			}
			http.Error(w, "there is no network here", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.close)
	return s
}

func (s *Server) close() {
	s.stop()
	s.http.CloseClientConnections()
	s.http.Close()
}

// announcements is where codex looks for news when it starts in a terminal. No setting prevents that.
const announcements = "raw.githubusercontent.com:443"

// URL returns the address of the server, without a path.
func (s *Server) URL() string { return s.http.URL }

// Requests returns the requests so far, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Await returns the oldest request that matches. If there is none, it waits, and fails the test after
// three minutes.
func (s *Server) Await(t testing.TB, match func(Request) bool) Request {
	t.Helper()
	limit := time.After(3 * time.Minute)
	for seen := 0; ; {
		s.mu.Lock()
		requests, asked := s.requests, s.asked
		s.mu.Unlock()
		if i := slices.IndexFunc(requests[seen:], match); i >= 0 {
			return requests[seen+i]
		}
		seen = len(requests)
		select {
		case <-asked:
		case <-limit:
			var prompts []string
			for _, request := range requests {
				prompts = append(prompts, request.Prompt)
			}
			t.Fatalf("after three minutes none of the requests matches; their prompts are %q", prompts)
		}
	}
}

// note records the request, unless it is an aside, and returns a number for the answer.
func (s *Server) note(request Request) (serial int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	if !request.isAside() {
		s.requests = append(s.requests, request)
		close(s.asked)
		s.asked = make(chan struct{})
	}
	return s.serial
}

// isAside reports whether the program asks for the title of a conversation or for what a person might say next. Such
// a request comes at the same time as one of the conversation.
func (r Request) isAside() bool {
	prompt := strings.ToLower(r.Prompt)
	return strings.HasPrefix(prompt, "[suggestion mode") || len(r.Tools) == 0 && strings.Contains(prompt, "titl") &&
		(strings.Contains(prompt, "generate a") || strings.Contains(prompt, "write the tit"))
}

func (s *Server) serve(ctx context.Context, w http.ResponseWriter, r *http.Request,
	read func(*http.Request, []byte) (Request, error), stream func(*events, Request, Reply)) {
	body, err := io.ReadAll(r.Body)
	var request Request
	if err == nil {
		request, err = read(r, body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	serial := s.note(request)
	reply := Reply{Text: "A title"}
	if !request.isAside() {
		reply = s.script(ctx, request)
	}
	if reply.Failure != nil {
		reply.Failure.write(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stream(&events{w: w, ctx: ctx, serial: serial}, request, reply)
}

// write sends the failure in the form that both APIs use.
func (f *Failure) write(w http.ResponseWriter) {
	for name, value := range f.Header {
		w.Header().Set(name, value)
	}
	if f.ContentType != "" {
		w.Header().Set("Content-Type", f.ContentType)
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body) // the program may have closed the connection
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	problem := map[string]any{"type": f.Type, "message": f.Message}
	// The program may have closed the connection.
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": problem})
}

// text joins the texts that are not empty.
func text(parts []string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n")
}

// events writes server-sent events.
type events struct {
	w   http.ResponseWriter
	ctx context.Context
	// serial makes the ids of answers different.
	serial int
}

func (e *events) id(kind string, n int) string { return fmt.Sprintf("%s_%d_%d", kind, e.serial, n) }

// send writes an event. The program notices if that fails.
func (e *events) send(kind string, fields map[string]any) {
	fields["type"] = kind
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // a script has a tool input without a JSON form
	}
	_, _ = fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", kind, data)
	_ = http.NewResponseController(e.w).Flush()
}

// data sends an event without a name.
func (e *events) data(fields map[string]any) {
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // a script has a tool input without a JSON form
	}
	_, _ = fmt.Fprintf(e.w, "data: %s\n\n", data)
	_ = http.NewResponseController(e.w).Flush()
}

// pause delays or cuts the answer as the reply says.
func (e *events) pause(reply Reply) {
	if reply.Cut {
		panic(http.ErrAbortHandler)
	}
	if reply.Hold == nil {
		return
	}
	select {
	case <-reply.Hold:
	case <-e.ctx.Done():
		panic(http.ErrAbortHandler)
	}
}

// pieces cuts a text in two, as a model does when it streams.
func pieces(text string) []string {
	half := len(text) / 2
	for half > 0 && text[half]&0xC0 == 0x80 {
		half--
	}
	if half == 0 {
		return []string{text}
	}
	return []string{text[:half], text[half:]}
}
