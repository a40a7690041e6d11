package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn/track"
)

func TestMain(m *testing.M) { mailboxtest.Main(m) }

// nobody is a caller whose environment names no agent and no session.
func nobody(string) string { return "" }

// newClient returns a client of this process for an agent.
func newClient(t *testing.T, w *mailbox.Workspace, agent schema.AgentName) *client.Client {
	t.Helper()
	c, err := client.For(w, agent, client.Caller{Getenv: nobody, PID: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a question from claude to codex.
func ask(t *testing.T, w *mailbox.Workspace, subject string) *schema.Message {
	t.Helper()
	m := mailboxtest.Draft("codex")
	m.Type, m.Subject = schema.Question, subject
	return mailboxtest.Send(t, w, m).Message
}

// answer answers a message with a text.
func answer(t *testing.T, c *client.Client, id schema.ID, text string) (*client.Receipt, error) {
	t.Helper()
	r, err := c.Request(t.Context(), string(id))
	if err != nil {
		return nil, err
	}
	a := r.Draft()
	a.Body, a.Acknowledge = schema.TextValue(text), true
	return r.Answer(t.Context(), a)
}

// codeOf is the code of an error, empty for none.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return client.Explain(err).Code
}

// TestActing checks who may act: the agent that is named or that the environment names, not a person for whom a program
// would act, and in a live session only its agent.
func TestActing(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	if _, err := project.AddAgent(w, "anna", project.AgentOptions{Runtime: "human", Now: mailboxtest.Time}); err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, filepath.Join(w.Dir(), project.SessionsName("codex"), "0193"+project.SessionSuffix), "{}")
	for _, test := range []struct {
		name, variables string
		isPerson        bool
		want, code      string
	}{
		{"codex", "", false, "codex", ""},
		{"", "OACP_AGENT=claude", false, "claude", ""},
		{"", "", false, "", "no_sender"},
		{"../x", "", false, "", "failed"},
		{"anna", "", false, "", "person"},
		{"anna", "", true, "anna", ""},
		{"", "CODEX_THREAD_ID=0193", false, "codex", ""},
		{"claude", "CODEX_THREAD_ID=0193", false, "", "other_agent"},
		{"claude", "CODEX_THREAD_ID=0193", true, "claude", ""},
	} {
		getenv := func(name string) string {
			value, _ := strings.CutPrefix(test.variables, name+"=")
			if value == test.variables {
				return ""
			}
			return value
		}
		c, err := client.As(w, schema.AgentName(test.name), client.Caller{Getenv: getenv, IsPerson: test.isPerson, Dir: w.Dir()})
		got := ""
		if err == nil {
			got = string(c.Agent())
		}
		if got != test.want || codeOf(err) != test.code {
			t.Errorf("%q with %q: %q, %v (%s); want %q and the code %q", test.name, test.variables, got, err, codeOf(err), test.want, test.code)
		}
		if err != nil && strings.Contains(client.Explain(err).Hint, "as-person") {
			t.Errorf("%q: the hint %q tells a program how to act as a person", test.name, client.Explain(err).Hint)
		}
	}
}

// TestOneAnswer checks that of answers by many at the same time one is sent, that the same answer again is success, and that
// another needs Again.
func TestOneAnswer(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex")
	m := ask(t, w, "Port?")
	var mu sync.Mutex
	var sent, refused int
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			_, err := answer(t, newClient(t, w, "codex"), m.ID, fmt.Sprint(8080+n))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				sent++
			case codeOf(err) == "already_answered":
				refused++
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if sent != 1 || refused != 7 {
		t.Errorf("%d answers are sent and %d refused, want 1 and 7", sent, refused)
	}
	c := newClient(t, w, "codex")
	inbox, err := w.List(t.Context(), "claude", mailbox.Inbox)
	if err != nil || len(inbox) != 1 {
		t.Fatalf("claude has %v (%v), want the answer", inbox, err)
	}
	again, err := answer(t, c, m.ID, inbox[0].Message.BodyText())
	if err != nil || !again.Receipts[0].AlreadySent || again.Message().ID != inbox[0].Message.ID || !again.AlreadyAcknowledged {
		t.Errorf("the same answer again: %+v, %v; want the first receipt", again, err)
	}
	r, err := c.Request(t.Context(), string(m.ID))
	if err != nil {
		t.Fatal(err)
	}
	other := r.Draft()
	other.Body, other.Again = schema.TextValue("no, 443"), true
	if _, err := r.Answer(t.Context(), other); err != nil {
		t.Error(err)
	}
	if inbox, err := w.List(t.Context(), "claude", mailbox.Inbox); err != nil || len(inbox) != 2 {
		t.Errorf("claude has %d answers (%v), want 2", len(inbox), err)
	}
	// A restore empties the slot.
	if _, err := client.Restore(t.Context(), w, "codex", string(m.ID)); err != nil {
		t.Fatal(err)
	}
	if slot, err := track.AnswerOf(t.Context(), w, m, "codex"); err != nil || slot.Answer != nil {
		t.Errorf("after a restore, the slot has %+v (%v)", slot, err)
	}
}

// TestRecalled checks that nothing can be done to a message that was taken back, and that what was given cannot be.
func TestRecalled(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex")
	claude, codex := newClient(t, w, "claude"), newClient(t, w, "codex")
	m := ask(t, w, "Port?")
	if _, err := codex.Recall(t.Context(), string(m.ID)); err == nil {
		t.Error("the recipient takes the message back")
	}
	back, err := claude.Recall(t.Context(), string(m.ID))
	if err != nil || back.Progress[0].Stage != track.StageRecalled {
		t.Fatalf("recall: %+v, %v", back, err)
	}
	_, answerErr := answer(t, codex, m.ID, "8080")
	_, ackErr := codex.Acknowledge(t.Context(), string(m.ID))
	_, workErr := codex.Working(t.Context(), string(m.ID), "")
	for what, err := range map[string]error{"answer": answerErr, "acknowledge": ackErr, "working": workErr} {
		if recalled, ok := errors.AsType[*client.RecalledError](err); !ok || recalled.At == "" || codeOf(err) != "recalled" {
			t.Errorf("%s: %v, want a RecalledError", what, err)
		}
	}
	ask(t, w, "Host?")
	given, err := codex.Next(t.Context(), client.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if late, err := claude.Recall(t.Context(), string(given.Message.ID)); err != nil || late.Progress[0].Stage == track.StageRecalled {
		t.Errorf("a message that was given is taken back: %+v, %v", late, err)
	}
	if err := given.Return(true); err != nil {
		t.Fatal(err)
	}
	if late, err := claude.Recall(t.Context(), string(given.Message.ID)); err != nil || late.Progress[0].Stage != track.StageRecalled {
		t.Errorf("a message of which nothing was written is not taken back: %+v, %v", late, err)
	}
}

// TestRecalledMeanwhile takes a message back after its recipient has begun to answer or to acknowledge it, as a sync does.
func TestRecalledMeanwhile(t *testing.T) {
	t.Parallel()
	w := mailboxtest.NewBare(t, "claude", "codex")
	codex := newClient(t, w, "codex")
	for _, kind := range []schema.Type{schema.Notification, schema.Question} {
		m := ask(t, w, "Port?")
		r, err := codex.Request(t.Context(), string(m.ID))
		if err != nil {
			t.Fatal(err)
		}
		a := r.Draft()
		a.Type, a.Body = kind, schema.TextValue("8080")
		p, err := r.Prepare(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		e, err := codex.Pending(t.Context(), string(m.ID))
		if err == nil {
			err = mailbox.Recall(t.Context(), w, m, "codex")
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Send(t.Context()); codeOf(err) != "recalled" {
			t.Errorf("a %s is sent: %v", kind, err)
		}
		errs, err := client.AcknowledgeAll(t.Context(), w, client.Caller{Getenv: nobody, PID: os.Getpid()}, []mailbox.Entry{e})
		if err != nil || codeOf(errs[0]) != "recalled" {
			t.Errorf("it is acknowledged: %v, %v", errs, err)
		}
	}
}

// TestOnce checks that a key sends one message, whatever the second draft says.
func TestOnce(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex")
	c := newClient(t, w, "claude")
	var ids []schema.ID
	for _, text := range []string{"first", "second"} {
		d := client.Draft{Message: mailboxtest.Draft("codex"), Once: "build-7"}
		d.Body = schema.TextValue(text)
		r, err := c.Send(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.Message().ID)
	}
	inbox, err := w.List(t.Context(), "codex", mailbox.Inbox)
	if err != nil || len(inbox) != 1 || ids[0] != ids[1] || strings.TrimSpace(inbox[0].Message.BodyText()) != "first" {
		t.Errorf("codex has %v (%v) after the ids %v, want the first message", inbox, err, ids)
	}
}

// TestOnceToAll checks that a key cannot stand for several messages.
func TestOnceToAll(t *testing.T) {
	agents := []schema.AgentName{"claude"}
	for n := range schema.MaxRecipients + 1 {
		agents = append(agents, schema.AgentName(fmt.Sprint("agent", n)))
	}
	w := mailboxtest.NewBare(t, agents...)
	d := client.Draft{Message: mailboxtest.Draft(schema.Everyone), Once: "build-7"}
	d.Type = schema.Notification
	if r, err := newClient(t, w, "claude").Send(t.Context(), d); r != nil || codeOf(err) != "usage" {
		t.Errorf("sent %+v, %v; want a refusal", r, err)
	}
}

// TestForgedOnce checks that Once sends no message that another program wrote to the journal.
func TestForgedOnce(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	mailboxtest.NewIn(t, dir, "claude", "codex")
	w := mailboxtest.OpenWith(t, dir, trust.Options(func() (string, error) { return home, nil }))
	if _, err := signing.NewStore(home).Generate("claude", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "agents/claude/config.yaml"), []byte("signing: {sign_messages: true}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, w, "claude")
	draft := client.Draft{Message: mailboxtest.Draft("codex"), Once: "k"}
	first, err := c.Send(t.Context(), draft)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Send(t.Context(), draft); err != nil || again.Message().ID != first.Message().ID {
		t.Errorf("again: %+v, %v; want the first receipt", again, err)
	}
	journal := filepath.Join(dir, "state/turns/claude.jsonl")
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.ReplaceAll(data, []byte(`"subject":"`), []byte(`"subject":"EVIL `))
	if err := os.WriteFile(journal, changed, 0o644); err != nil || bytes.Equal(changed, data) {
		t.Fatalf("nothing to change in %s, %v", data, err)
	}
	if sent, err := c.Send(t.Context(), draft); !errors.Is(err, mailbox.ErrNotSealed) {
		t.Errorf("sent %+v, %v; want it refused", sent, err)
	}
}

// TestNextOnce gives many messages to many clients: each gets what nobody else has.
func TestNextOnce(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex")
	for n := range 6 {
		ask(t, w, fmt.Sprint("question ", n))
	}
	var mu sync.Mutex
	got := make(map[schema.ID]int)
	var group sync.WaitGroup
	for range 3 {
		c := newClient(t, w, "codex")
		group.Go(func() {
			for {
				r, err := c.Next(t.Context(), client.Filter{Timeout: 1})
				if errors.Is(err, watch.ErrTimeout) {
					return
				}
				if err = errors.Join(err, r.Shown()); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got[r.Message.ID]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if len(got) != 6 {
		t.Errorf("%d messages are given, want 6", len(got))
	}
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s is given %d times", id, n)
		}
	}
}

// TestRefused checks what is not sent.
func TestRefused(t *testing.T) {
	w := mailboxtest.NewBare(t, "claude", "codex", "gemini")
	c := newClient(t, w, "claude")
	send := func(change func(*client.Draft)) error {
		d := client.Draft{Message: mailboxtest.Draft("codex")}
		change(&d)
		_, err := c.Send(t.Context(), d)
		return err
	}
	for name, err := range map[string]error{
		"invalid_message": send(func(d *client.Draft) { d.Subject = "two\nlines" }),
		"secret":          send(func(d *client.Draft) { d.Body = schema.TextValue("the key is AKIA" + "Q3EGZ7XK2LMNP4RT") }),
		"unknown_agent":   send(func(d *client.Draft) { d.To = []schema.AgentName{"nobody"} }),
		"not_found":       send(func(d *client.Draft) { d.InReplyTo = "zzzz" }),
	} {
		if codeOf(err) != name {
			t.Errorf("%s: the error is %v with the code %q", name, err, codeOf(err))
		}
	}
	m := ask(t, w, "Port?")
	if _, err := answer(t, newClient(t, w, "gemini"), m.ID, "8080"); codeOf(err) != "not_recipient" {
		t.Errorf("another agent answers: %v", err)
	}
	if inbox, err := w.List(t.Context(), "claude", mailbox.Inbox); err != nil || len(inbox) != 0 {
		t.Errorf("claude has %v (%v), want nothing", inbox, err)
	}
}

// TestDecline checks that a request is declined with a reason, once, that a later answer counts, and that a question back is
// none.
func TestDecline(t *testing.T) {
	w := mailboxtest.New(t, "claude", "codex")
	c := newClient(t, w, "codex")
	m := ask(t, w, "Port it?")
	r, err := c.Request(t.Context(), string(m.ID))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name, code string
		sent       bool
		do         func() (*client.Receipt, error)
	}{
		{"without a reason", "invalid_message", false, func() (*client.Receipt, error) { return r.Decline(t.Context(), " ") }},
		{"a question back", "", true, func() (*client.Receipt, error) { return r.AskBack(t.Context(), "Where to?") }},
		{"a reason", "", true, func() (*client.Receipt, error) { return r.Decline(t.Context(), "No time.") }},
		{"the same reason", "", false, func() (*client.Receipt, error) { return r.Decline(t.Context(), "No time.") }},
		{"another reason", "already_answered", false, func() (*client.Receipt, error) { return r.Decline(t.Context(), "No.") }},
		{"a late answer", "", true, func() (*client.Receipt, error) { return answer(t, c, m.ID, "Done.") }},
		{"a reason after the answer", "already_answered", false, func() (*client.Receipt, error) { return r.Decline(t.Context(), "No time.") }},
	} {
		receipt, err := step.do()
		if sent := receipt != nil && !receipt.Receipts[0].AlreadySent; codeOf(err) != step.code || sent != step.sent {
			t.Errorf("%s: sent %v, %v; want sent %v and the code %q", step.name, sent, err, step.sent, step.code)
		}
	}
	progress, err := track.Track(t.Context(), w, string(m.ID))
	if err != nil || progress[0].Stage != track.StageAnswered || len(progress[0].Replies) != 3 {
		t.Errorf("the progress is %+v (%v), want answered with three replies", progress, err)
	}
}
