package provider_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/cmd/oacp-gascity/provider"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// A city calls the provider as Gas City does, but in this process.
type city struct {
	*testing.T
	w   *mailbox.Workspace
	env map[string]string
}

// A mail is what Gas City decodes.
type mail struct {
	ID, From, To, Subject, Body string
	CreatedAt                   time.Time `json:"created_at"`
	Read                        bool
	ThreadID                    string `json:"thread_id"`
	ReplyTo                     string `json:"reply_to"`
	Priority                    int
	CC                          []string
}

func newCity(t *testing.T, agents ...schema.AgentName) city {
	w := mailboxtest.New(t, agents...)
	return city{t, w, map[string]string{"OACP_WORKSPACE": w.Dir()}}
}

// call calls the provider, and returns its streams and its exit status.
func (c city) call(stdin string, args ...string) (stdout, stderr string, status int) {
	var out, errs bytes.Buffer
	s := &command.Streams{
		In: strings.NewReader(stdin), Out: bufio.NewWriter(&out), Err: &errs, Dir: c.w.Dir(), Now: time.Now,
		Getenv: func(name string) string { return c.env[name] },
	}
	status = provider.Main(args, s)
	return strings.TrimSuffix(out.String(), "\n"), errs.String(), status
}

// do calls an operation that must succeed, and returns what it prints.
func (c city) do(stdin string, args ...string) string {
	c.Helper()
	stdout, stderr, status := c.call(stdin, args...)
	if status != 0 || stderr != "" {
		c.Fatalf("%q: exit status %d: %s", args, status, stderr)
	}
	return stdout
}

// fails calls an operation that must fail for a reason.
func (c city) fails(reason, stdin string, args ...string) {
	c.Helper()
	stdout, stderr, status := c.call(stdin, args...)
	if status != 1 || stdout != "" || !strings.Contains(stderr, reason) {
		c.Errorf("%q: exit status %d, %q, %q; want 1 and %q", args, status, stdout, stderr, reason)
	}
}

func decode[T any](c city, text string) (value T) {
	c.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		c.Fatalf("%q: %v", text, err)
	}
	return value
}

func input(from, subject, body string) string {
	data, _ := json.Marshal(map[string]string{"from": from, "subject": subject, "body": body})
	return string(data)
}

func (c city) send(from, to, subject, body string) mail {
	c.Helper()
	return decode[mail](c, c.do(input(from, subject, body), "send", to))
}

// ids returns the ids that an operation lists. Nothing is how it says that there are none.
func (c city) ids(args ...string) (ids []string) {
	c.Helper()
	out := c.do("", args...)
	if out == "" {
		return nil
	}
	for _, m := range decode[[]mail](c, out) {
		ids = append(ids, m.ID)
	}
	if ids == nil {
		c.Errorf("%q printed an empty list, want nothing", args)
	}
	return ids
}

func (c city) want(want []string, args ...string) {
	c.Helper()
	if got := c.ids(args...); !slices.Equal(got, want) {
		c.Errorf("%q lists %q, want %q", args, got, want)
	}
}

// count checks the numbers of a recipient.
func (c city) count(recipient string, total, unread int) {
	c.Helper()
	got := decode[struct{ Total, Unread int }](c, c.do("", "count", recipient))
	if got.Total != total || got.Unread != unread {
		c.Errorf("%q has %d mails, %d of them unread, want %d and %d", recipient, got.Total, got.Unread, total, unread)
	}
}

// TestOperations follows mails through all operations. These are the facts of the suite of Gas City: see
// TestSuiteOfGasCity.
func TestOperations(t *testing.T) {
	c := newCity(t)
	c.do("", "ensure-running")
	c.want(nil, "inbox", "bob")
	c.count("bob", 0, 0)
	one := c.send("alice", "bob", "Greetings", "hello\nthere\n")
	other := c.send("alice", "charlie", "", "for charlie")
	two := c.send("alice", "bob", "", "again")
	want := mail{
		ID: one.ID, From: "alice", To: "bob", Subject: "Greetings", Body: "hello\nthere\n", CreatedAt: one.CreatedAt, ThreadID: one.ThreadID, Priority: 2,
	}
	if age := time.Since(one.CreatedAt); !reflect.DeepEqual(one, want) || one.ID == "" || one.ThreadID == "" || age < 0 || age > time.Minute {
		t.Errorf("sent %+v, want %+v", one, want)
	}
	if one.ID == two.ID || one.ThreadID == two.ThreadID {
		t.Errorf("two mails have the ids %s and %s and the threads %s and %s", one.ID, two.ID, one.ThreadID, two.ThreadID)
	}
	for _, list := range []string{"inbox", "check", "all", "check", "inbox"} { // none of them reads
		c.want([]string{one.ID, two.ID}, list, "bob")
	}
	c.want([]string{other.ID}, "inbox", "charlie")
	if got := decode[mail](c, c.do("", "get", one.ID)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.count("bob", 2, 2)

	// What is read stays among all.
	want.Read = true
	for range 2 {
		if got := decode[mail](c, c.do("", "read", one.ID)); !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, want %+v", got, want)
		}
		c.want([]string{two.ID}, "inbox", "bob")
		c.want([]string{one.ID, two.ID}, "all", "bob")
		c.count("bob", 2, 1)
	}
	for range 2 {
		if out := c.do("", "mark-unread", one.ID); out != "" {
			t.Errorf("marking printed %q", out)
		}
		c.do("", "mark-read", two.ID)
		c.want([]string{one.ID}, "check", "bob")
		c.count("bob", 2, 1)
	}

	// A reply goes back in the same thread, and so does the reply to it.
	back := decode[mail](c, c.do(input("bob", "", "hi"), "reply", one.ID))
	again := decode[mail](c, c.do(input("alice", "New subject", "ho"), "reply", back.ID))
	if back.From != "bob" || back.To != "alice" || back.ReplyTo != one.ID || back.ThreadID != one.ThreadID || back.Subject != "Re: Greetings" {
		t.Errorf("the reply is %+v", back)
	}
	if again.To != "bob" || again.ReplyTo != back.ID || again.ThreadID != one.ThreadID || again.Subject != "New subject" {
		t.Errorf("the reply to the reply is %+v", again)
	}
	c.want([]string{one.ID, back.ID, again.ID}, "thread", one.ThreadID)
	c.want(nil, "thread", "conv-20200101-nobody-7")
	c.want(nil, "thread", "nonexistent-thread")

	// What is archived is in no list, but in its thread, and stays so.
	if out := c.do("", "archive", one.ID) + c.do("", "delete", two.ID); out != "" {
		t.Errorf("archiving printed %q", out)
	}
	c.want([]string{again.ID}, "all", "bob")
	c.count("bob", 1, 1)
	c.want([]string{one.ID, back.ID, again.ID}, "thread", one.ThreadID)
	for _, id := range []string{one.ID, two.ID} {
		c.fails("already archived", "", "archive", id)
		c.fails("already archived", "", "delete", id)
		c.fails("is in the archive", "", "mark-unread", id)
		c.do("", "mark-read", id)
		if got := decode[mail](c, c.do("", "read", id)); got.ID != id || !got.Read {
			t.Errorf("an archived mail is %+v", got)
		}
	}
	if archived, err := c.w.List(t.Context(), "bob", mailbox.Archive); err != nil || len(archived) != 2 {
		t.Errorf("the archive has %d messages (%v), want 2", len(archived), err)
	}
	for _, name := range []string{"get", "read", "mark-read", "mark-unread", "archive", "delete"} {
		c.fails("nonexistent", "", name, "nonexistent")
	}
	c.fails("nonexistent", input("bob", "x", "x"), "reply", "nonexistent")
}

// TestStatusOfErrors checks that only an unknown operation has the status that Gas City takes for success.
func TestStatusOfErrors(t *testing.T) {
	c := newCity(t)
	if stdout, stderr, status := c.call("", "frobnicate", "x"); status != 2 || stdout != "" || !strings.Contains(stderr, `no operation "frobnicate"`) {
		t.Errorf("an unknown operation: exit status %d, %q, %q", status, stdout, stderr)
	}
	if _, _, status := c.call(""); status != 2 {
		t.Errorf("no operation: exit status %d", status)
	}
	for _, flag := range []string{"--help", "--version", "-V"} {
		if out := c.do("", flag); !strings.Contains(out, "oacp") {
			t.Errorf("%s prints %q", flag, out)
		}
	}
	for _, name := range []string{"send", "inbox", "check", "get", "read", "mark-read", "mark-unread", "archive", "delete", "reply", "thread", "count", "all"} {
		c.fails("needs one argument, not 0", "", name)
		c.fails("needs one argument, not 2", "", name, "a", "b")
		if name != "thread" && name != "send" && name != "reply" {
			c.fails("--help", "", name, "--help") // an operand, not a flag
		}
	}
	c.fails("EOF", "", "send", "bob")
	c.fails("invalid character", "no JSON", "send", "bob")
	c.fails("cannot unmarshal", `{"from":7}`, "send", "bob")
	c.fails("unexpected EOF", `{"body":"`+strings.Repeat("x", 5<<20)+`"}`, "send", "bob")
	c.fails("body: ", input("alice", "", " \n"), "send", "bob")
	c.fails("line break", input("alice", "one\ntwo", "x"), "send", "bob")
	c.fails("20000", input("alice", "x", strings.Repeat("x", 20_001)), "send", "bob")
	c.fails("alice", input("alice", "x", "x"), "send", "alice") // to itself
	c.fails("agent name", input("alice", "x", "x"), "send", "../../etc")
	c.fails("agent name", input("alice", "x", "x"), "send", "")
	c.fails("agent name", input("a lice", "x", "x"), "send", "bob")
	c.fails("reserved", input("oacp", "x", "x"), "send", "bob")
	c.env["OACP_WORKSPACE"] = t.TempDir()
	c.fails("no workspace", "", "ensure-running")
	c.fails("no workspace", "", "archive", "x")
	if agents, err := c.w.Agents(); err != nil || slices.Contains(agents, "bob") {
		t.Errorf("the agents are %q (%v): mail that was not sent made one", agents, err)
	}
}

// TestAddresses checks that the names of Gas City come back as they were.
func TestAddresses(t *testing.T) {
	c := newCity(t)
	for _, address := range []string{"mayor", "myrig/witness", "gastown.mayor", "rigs/my-rig/gastown.polecat_1", "human", "gc-x7f", "42"} {
		m := c.send("deacon/boss", address, "Hi", "x")
		if got := decode[mail](c, c.do("", "get", m.ID)); m.To != address || m.From != "deacon/boss" || got.To != address || got.From != "deacon/boss" {
			t.Errorf("a mail to %s goes from %s to %s, and comes from %s to %s", address, m.From, m.To, got.From, got.To)
		}
		c.want([]string{m.ID}, "inbox", address)
	}
	if !c.w.Knows("myrig--witness") {
		t.Error("the agent of a rig is not named as its session")
	}
	c.fails("Mayor", input("a", "x", "x"), "send", "Mayor") // many file systems have one folder for both
	// A mail without a sender is from the person.
	if m := decode[mail](c, c.do(`{"body":"x"}`, "send", "mayor")); m.From != "human" || m.Subject != "x" {
		t.Errorf("a mail without a sender is %+v", m)
	}
	c.count("", 8, 8)
	if got := c.ids("inbox", ""); len(got) != 8 {
		t.Errorf("all inboxes have %q", got)
	}
}

func TestSubjects(t *testing.T) {
	c := newCity(t)
	long := strings.Repeat("ü", 100)
	for _, test := range []struct{ subject, body, wantSubject, wantBody string }{
		{"", "\n first line \r\nsecond", "first line", "\n first line \r\nsecond"},
		{"", long, strings.Repeat("ü", 79) + "…", long},
		{"only a subject", "", "only a subject", "only a subject"},
		{" x ", "- a: b\n  # \"no\" YAML\t'\n", "x", "- a: b\n  # \"no\" YAML\t'\n"},
	} {
		m := c.send("alice", "bob", test.subject, test.body)
		got := decode[mail](c, c.do("", "read", m.ID))
		if m.Subject != test.wantSubject || m.Body != test.wantBody || got.Subject != m.Subject || got.Body != m.Body {
			t.Errorf("subject %q and body %q became %q and %q, read as %q and %q", test.subject, test.body, m.Subject, m.Body, got.Subject, got.Body)
		}
	}
}

// TestMessagesOfOthers checks how messages look that Gas City did not write.
func TestMessagesOfOthers(t *testing.T) {
	c := newCity(t, "claude", "mayor", "deacon", "codex")
	m := mailboxtest.Draft("mayor", "deacon")
	m.Priority, m.Type = schema.P0, schema.Question
	m.Body = schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{
		{Key: "agent", Value: schema.TextValue("claude")}, {Key: "note", Value: schema.TextValue("two\nlines\n")},
	}}
	sent := mailboxtest.Send(t, c.w, m).Message
	id := string(sent.ID)
	got := decode[[]mail](c, c.do("", "inbox", "deacon"))
	if len(got) != 1 || got[0].ID != id+"@deacon" || !slices.Equal(got[0].CC, []string{"mayor"}) || got[0].Priority != 0 ||
		got[0].Body != "agent: claude\nnote: |\n  two\n  lines\n" {
		t.Errorf("deacon has %+v", got)
	}
	// Each recipient has a mail of its own.
	c.want([]string{id + "@mayor", id + "@deacon"}, "thread", got[0].ThreadID)
	c.do("", "read", id+"@mayor")
	c.count("mayor", 1, 0)
	c.count("deacon", 1, 1)
	c.do("", "archive", id+"@mayor")
	c.count("mayor", 0, 0)
	c.count("deacon", 1, 1)
	c.fails("already archived", "", "archive", id+"@mayor")
	c.fails("name one: "+id+"@mayor", "", "read", id)
	c.fails("has no message "+id+"@codex", "", "read", id+"@codex")
	if m := decode[mail](c, c.do("", "get", id)); m.To != "mayor" || !m.Read {
		t.Errorf("without a recipient, get returns %+v", m)
	}
	// A file that is no message is no mail.
	mailboxtest.Place(t, c.w, "codex", mailbox.Inbox, "20260313T1430Z_claude_question.yaml", schema.Message{ID: "no id"})
	c.want(nil, "all", "codex")
}

// TestReplyAnswers checks that a reply is the answer that an agent of oacp waits for.
func TestReplyAnswers(t *testing.T) {
	c := newCity(t, "claude", "mayor")
	for _, kind := range []schema.Type{schema.Question, schema.TaskRequest, schema.ReviewRequest, schema.BrainstormRequest} {
		m := mailboxtest.Draft("mayor")
		m.Type = kind
		request := mailboxtest.Send(t, c.w, m).Message
		reply := decode[mail](c, c.do(input("mayor", "", "Done."), "reply", string(request.ID)))
		found, err := c.w.Find(t.Context(), reply.ID)
		if err != nil || !found[0].Message.Answers(request) {
			t.Errorf("a reply to a %s does not answer it: %v", kind, err)
		}
	}
	// A mail whose subject is a question is one, and the reply to it is none.
	ask := c.send("mayor", "claude", "", "Which port?\n\nSee the log.")
	answer := decode[mail](c, c.do(input("claude", "", "80"), "reply", ask.ID))
	for id, want := range map[string]schema.Type{ask.ID: schema.Question, answer.ID: schema.Notification} {
		if found, err := c.w.Find(t.Context(), id); err != nil || found[0].Message.Type != want {
			t.Errorf("%s is %+v (%v), want a %s", id, found, err, want)
		}
	}
	// Nobody answers for a person.
	if _, err := project.AddAgent(c.w, "anna", project.AgentOptions{Runtime: "human", Now: mailboxtest.Time}); err != nil {
		t.Fatal(err)
	}
	question := mailboxtest.Send(t, c.w, mailboxtest.Draft("anna")).Message
	c.fails("anna", input("anna", "", "Yes."), "reply", string(question.ID))
}

// TestWorkspace checks which workspace is used.
func TestWorkspace(t *testing.T) {
	c := newCity(t)
	m := c.send("alice", "bob", "x", "x")
	elsewhere := city{t, mailboxtest.New(t), map[string]string{}}
	for _, env := range []map[string]string{{}, {"GC_CITY": "a name"}} {
		elsewhere.env = env
		elsewhere.want(nil, "inbox", "bob")
	}
	for _, env := range []map[string]string{
		{"GC_CITY": c.w.Dir()}, {"GC_CITY": filepath.Join(c.w.Dir(), "agents")},
		{"OACP_WORKSPACE": c.w.Dir(), "GC_CITY": elsewhere.w.Dir()},
	} {
		elsewhere.env = env
		elsewhere.want([]string{m.ID}, "inbox", "bob")
	}
}

// TestArchiveOnce checks that of several callers that archive a mail, one succeeds and the others learn why they do not.
func TestArchiveOnce(t *testing.T) {
	c := newCity(t)
	m := c.send("alice", "bob", "x", "x")
	const callers = 8
	errs := make([]error, callers)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() {
			_, stderr, status := c.call("", "archive", m.ID)
			if status != 0 {
				errs[i] = errors.New(stderr)
			}
		})
	}
	wait.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
		} else if !strings.Contains(err.Error(), "already archived") {
			t.Error(err)
		}
	}
	if succeeded != 1 {
		t.Errorf("%d callers archived the mail, want 1", succeeded)
	}
}

// TestHeld checks that an agent that reads only verified messages sees no other ones.
func TestHeld(t *testing.T) {
	c := newCity(t, "bob")
	m := c.send("alice", "bob", "Forged", "secret")
	settings := filepath.Join(c.w.Dir(), schema.AgentPath("bob", project.ConfigName))
	if err := os.WriteFile(settings, []byte("signing:\n  verify_mode: enforce\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.count("bob", 0, 0)
	c.want(nil, "all", "")
	for _, name := range []string{"GC_ALIAS", "GC_SESSION_ID", "GC_AGENT"} {
		c.env[name] = "bob"
		c.want(nil, "thread", m.ThreadID)
		c.fails("no message", "", "get", m.ID)
		c.fails("no message", "", "archive", m.ID)
		delete(c.env, name)
	}
}
