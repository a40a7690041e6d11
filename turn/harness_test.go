package turn

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

func TestMain(m *testing.M) {
	// Otherwise the race detector delays the exit of every process by a second.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	if fake := os.Getenv(fakeProgram); fake != "" {
		os.Exit(playFake(fake))
	}
	if role := os.Getenv(childRole); role != "" {
		os.Exit(runChild(role))
	}
	if err := memoryfolder.Use(); err != nil {
		panic(err)
	}
	check.Overlap()
	os.Exit(m.Run())
}

// puppet is an agent that a test controls.
type puppet struct {
	// start, turn and stop may be nil: they then succeed, and the answer is "ok".
	start func() error
	stop  func() error
	turn  func(ctx context.Context, request agent.Request) (agent.Result, error)
	// session is the session that it continues; sessions are those that it was asked to continue.
	session string
}

func (p *puppet) Start(context.Context) error {
	if p.start == nil {
		return nil
	}
	return p.start()
}

func (p *puppet) Turn(ctx context.Context, request agent.Request, observe func(agent.Event)) (agent.Result, error) {
	observe(agent.Event{Text: "working"})
	if p.turn == nil {
		return agent.Result{Text: "ok", SessionID: p.session}, nil
	}
	return p.turn(ctx, request)
}

func (p *puppet) Interrupt(context.Context) error { return nil }
func (p *puppet) SessionID() string               { return p.session }

func (p *puppet) Stop(context.Context) error {
	if p.stop == nil {
		return nil
	}
	return p.stop()
}

// plays returns a function that makes drivers whose turns all do the same.
func plays(turn func(ctx context.Context, request agent.Request) (agent.Result, error)) func(schema.ConversationID, string) agent.Driver {
	return func(schema.ConversationID, string) agent.Driver { return &puppet{turn: turn} }
}

func says(text string) func(schema.ConversationID, string) agent.Driver {
	return plays(func(context.Context, agent.Request) (agent.Result, error) { return agent.Result{Text: text}, nil })
}

func variable(request agent.Request, name string) string {
	for _, v := range request.Env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return "no such variable"
}

// newWorkspace makes a workspace with claude and codex. It syncs nothing, because these tests kill
// processes, not machines.
func newWorkspace(t testing.TB, agents ...schema.AgentName) *mailbox.Workspace {
	t.Helper()
	if len(agents) == 0 {
		agents = []schema.AgentName{"claude", "codex"}
	}
	return mailboxtest.New(t, agents...)
}

// question returns a message from claude to codex.
func question(subject string) schema.Message {
	return schema.Message{
		From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question,
		Subject: subject, Body: schema.TextValue("the body of " + subject),
	}
}

func send(t testing.TB, w *mailbox.Workspace, drafts ...schema.Message) []*schema.Message {
	t.Helper()
	var sent []*schema.Message
	for _, result := range w.SendAll(t.Context(), drafts, nil) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		sent = append(sent, result.Receipt.Message)
	}
	return sent
}

// recorder keeps the events of a Runner.
type recorder struct {
	mu     sync.Mutex
	events []Event
	// on is called for each event, if it is set.
	on func(Event)
	// ignore chooses events that are not recorded, if it is set.
	ignore func(Event) bool
}

// isWatcher reports whether an event is a problem of the watcher, which looks at the workspace when
// it likes.
func isWatcher(e Event) bool {
	return e.Kind == EventProblem && strings.Contains(e.Reason, "completing deliveries")
}

func (r *recorder) observe(e Event) {
	if r.ignore != nil && r.ignore(e) {
		return
	}
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	if r.on != nil {
		r.on(e)
	}
}

// of returns the subjects, files or reasons of the events of a kind.
func (r *recorder) of(kind EventKind) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, e := range r.events {
		if e.Kind == kind {
			text := e.Subject
			if text == "" {
				text = e.File
			}
			if text == "" {
				text = e.Reason
			}
			all = append(all, text)
		}
	}
	return all
}

func (r *recorder) last(kind EventKind) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.events) {
		if e.Kind == kind {
			return e
		}
	}
	return Event{}
}

func (r *recorder) kinds() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, e := range r.events {
		if e.Kind != EventOutput {
			all = append(all, string(e.Kind))
		}
	}
	return strings.Join(all, " ")
}

// newRunner makes a Runner for codex with short delays.
func newRunner(t testing.TB, w *mailbox.Workspace, c Config) (*Runner, *recorder) {
	t.Helper()
	rec := &recorder{}
	if c.Agent == "" {
		c.Agent = "codex"
	}
	if c.NewDriver == nil {
		c.NewDriver = says("ok")
	}
	if c.firstRetry == 0 {
		c.firstRetry, c.lastRetry = time.Millisecond, 2*time.Millisecond
	}
	if c.Observe == nil {
		c.Observe = rec.observe
	}
	r, err := New(w, c)
	if err != nil {
		t.Fatal(err)
	}
	r.poll, r.retryDelay, r.patience = 5*time.Millisecond, 5*time.Millisecond, 5*time.Millisecond
	return r, rec
}

// runOnce handles the inbox of codex until nothing is left to do.
func runOnce(t testing.TB, w *mailbox.Workspace, c Config) (*recorder, error) {
	t.Helper()
	c.Once = true
	r, rec := newRunner(t, w, c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := r.Run(ctx)
	if ctx.Err() != nil {
		t.Fatalf("the run did not end; its events are %s", rec.kinds())
	}
	return rec, err
}

// subjects returns the subjects of the messages in a box, in processing order.
func subjects(t testing.TB, w *mailbox.Workspace, name schema.AgentName, box mailbox.Box) []string {
	t.Helper()
	var all []string
	for _, e := range entries(t, w, name, box) {
		all = append(all, e.Message.Subject)
	}
	return all
}

func entries(t testing.TB, w *mailbox.Workspace, name schema.AgentName, box mailbox.Box) []mailbox.Entry {
	t.Helper()
	found, err := w.List(t.Context(), name, box)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		if e.Err != nil {
			t.Fatalf("%s: %v", e.Path, e.Err)
		}
	}
	return found
}

func wantTexts(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func progress(t testing.TB, w *mailbox.Workspace, id schema.ID) track.Progress {
	t.Helper()
	all, err := track.Track(t.Context(), w, string(id))
	if err != nil || len(all) != 1 {
		t.Fatalf("Track(%s) = %+v, %v, want one recipient", id, all, err)
	}
	return all[0]
}

// factKinds returns the kinds of the facts in a journal.
func factKinds(t testing.TB, data []byte) []string {
	t.Helper()
	var kinds []string
	for line := range strings.Lines(string(data)) {
		var f track.Fact
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Errorf("line %q: %v", line, err)
		}
		kinds = append(kinds, string(f.Kind))
	}
	return kinds
}
