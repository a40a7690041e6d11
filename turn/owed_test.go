package turn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// owedBy returns what an agent owes and is owed, a line each: id, debtor, stage.
func owedBy(t *testing.T, w *mailbox.Workspace, agent schema.AgentName) (mine, theirs []string) {
	t.Helper()
	owed, err := track.OwedBy(t.Context(), w, agent)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range owed.Mine {
		mine = append(mine, fmt.Sprint(r.Subject, " ", r.To, " ", r.Stage))
	}
	for _, r := range owed.Theirs {
		theirs = append(theirs, fmt.Sprint(r.Subject, " ", r.To, " ", r.Stage))
	}
	return mine, theirs
}

// TestOwedInEveryStage checks that a request is owed wherever it is, until it is answered.
func TestOwedInEveryStage(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	check := func(what string, want ...string) {
		t.Helper()
		mine, theirs := owedBy(t, w, "codex")
		if !slices.Equal(mine, want) || len(theirs) != 0 {
			t.Errorf("%s: codex owes %q and is owed %q, want %q and nothing", what, mine, theirs, want)
		}
		if mine, theirs := owedBy(t, w, "claude"); !slices.Equal(theirs, want) || len(mine) != 0 {
			t.Errorf("%s: claude owes %q and is owed %q, want nothing and %q", what, mine, theirs, want)
		}
	}
	check("at first")
	sent := send(t, w, question("q"))[0]
	check("sent", "q codex waiting")
	leave(t, w, func(rec *track.Record) []track.Fact {
		f := track.Held.About(rec)
		f.Reason = "a bound"
		return []track.Fact{f}
	})
	check("held", "q codex held")
	inbox := entries(t, w, "codex", mailbox.Inbox)[0]
	staged := filepath.Join(w.Dir(), "state", "outgoing", string(sent.ID)+"@codex@inbox")
	if err := errors.Join(os.MkdirAll(filepath.Dir(staged), 0o755), os.Rename(inbox.Path, staged)); err != nil {
		t.Fatal(err)
	}
	if mine, theirs := owedBy(t, w, "codex"); len(mine)+len(theirs) > 0 {
		t.Errorf("codex owes %q and is owed %q before anything is delivered", mine, theirs)
	}
	if mine, theirs := owedBy(t, w, "claude"); len(mine) > 0 || !slices.Equal(theirs, []string{"q codex stored"}) {
		t.Errorf("not delivered: claude owes %q and is owed %q", mine, theirs)
	}
	if err := os.Rename(staged, inbox.Path); err != nil {
		t.Fatal(err)
	}
	if err := w.Acknowledge(inbox); err != nil {
		t.Fatal(err)
	}
	check("acknowledged", "q codex done")
	answer := conversation.Reply(sent, "codex", schema.Notification)
	answer.Type, answer.Body = schema.Question, schema.TextValue("why?")
	back := send(t, w, answer)[0]
	mine, theirs := owedBy(t, w, "codex")
	if !slices.Equal(mine, []string{"q codex done"}) || !slices.Equal(theirs, []string{"Re: q claude waiting"}) {
		t.Errorf("after a question back codex owes %q and is owed %q", mine, theirs)
	}
	reply := conversation.Reply(back, "claude", schema.Notification)
	reply.Body = schema.TextValue("because")
	answer.Type = schema.Notification
	for _, m := range send(t, w, reply, answer) {
		if mine, theirs := owedBy(t, w, m.To[0]); len(mine) > 0 || len(theirs) != 1 || !strings.HasSuffix(theirs[0], " answered") {
			t.Errorf("%s owes %q and is owed %q, want the request whose answer it has not seen", m.To[0], mine, theirs)
		}
		if err := track.NoteNoticed(w, m.To[0], []track.Key{track.KeyOf(m)}, track.Noticed{Holder: track.Person}); err != nil {
			t.Fatal(err)
		}
	}
	check("answered and shown")

	send(t, w, question("dead"))
	pending := entries(t, w, "codex", mailbox.Inbox)
	dead := slices.IndexFunc(pending, func(e mailbox.Entry) bool { return e.Message.Subject == "dead" })
	if _, err := w.DeadLetter(pending[dead], mailbox.DeadLetterReason{Reason: "it failed"}); err != nil {
		t.Fatal(err)
	}
	check("given up", "dead codex dead")
}

// TestPostmasterOwesNothing checks a question to the postmaster, which earlier versions could send: nobody waits
// for its answer.
func TestPostmasterOwesNothing(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	m := question("Why?")
	now := time.Now().UTC()
	m.ID = schema.ID("msg-" + now.Format("20060102T1504Z") + "-claude-aaaa")
	m.CreatedAt, m.Priority, m.To = schema.NewTimestamp(now), schema.P2, []schema.AgentName{mailbox.Postmaster, "codex"}
	data, err := schema.Encode(&m)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.Dir(), schema.BoxPath("claude", mailbox.Outbox), m.FileName()), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	owed, err := track.OwedBy(t.Context(), w, "claude")
	if err != nil || len(owed.Theirs) != 1 || owed.Theirs[0].To != "codex" {
		t.Errorf("claude waits for %+v (%v), want codex alone", owed.Theirs, err)
	}
}

// TestOwedAfterTurns checks what turns leave: the journal knows an automatic answer, also one that an
// earlier version sent without making it final.
func TestOwedAfterTurns(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	task := question("silent")
	task.Type = schema.TaskRequest
	send(t, w, task)
	if _, err := runOnce(t, w, Config{NewDriver: says("done")}); err != nil {
		t.Fatal(err)
	}
	if mine, _ := owedBy(t, w, "codex"); !slices.Equal(mine, []string{"silent codex done"}) {
		t.Errorf("after a turn without an answer codex owes %q", mine)
	}
	task.Subject = "loud"
	send(t, w, task)
	if _, err := runOnce(t, w, Config{NewDriver: says("done"), Reply: true}); err != nil {
		t.Fatal(err)
	}
	answers := entries(t, w, "codex", mailbox.Outbox)
	if len(answers) != 1 || !answers[0].Message.Marks.Final {
		t.Fatalf("codex sent %d messages, want one that is final", len(answers))
	}
	data, err := os.ReadFile(answers[0].Path)
	if err == nil {
		err = os.WriteFile(answers[0].Path, []byte(strings.Replace(string(data), "final: true", "by: codex", 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if mine, _ := owedBy(t, w, "codex"); !slices.Equal(mine, []string{"silent codex done"}) {
		t.Errorf("after an answer that is not marked as final codex owes %q", mine)
	}
}

// TestOwedReadsWhatMatters compares with a simple search of all messages, on random mailboxes: copies
// are missing, files have any name, and clocks differ.
func TestOwedReadsWhatMatters(t *testing.T) {
	t.Parallel()
	agents := []schema.AgentName{"amp", "claude", "codex"}
	for seed := range uint64(25) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newWorkspace(t, agents...)
		var all []schema.Message
		where := make(map[schema.ID][]schema.AgentName) // has copies in the inboxes of
		sent := make(map[schema.ID]bool)                // has a copy in the sender's outbox
		for i := range 1 + random.IntN(25) {
			m := randomMessage(random, i, agents, all)
			all = append(all, m)
			data, err := schema.Encode(&m)
			if err != nil {
				t.Fatal(err)
			}
			put := func(agent schema.AgentName, box mailbox.Box) {
				name := strings.TrimSuffix(m.FileName(), ".yaml") + fmt.Sprintf("_r%04d.yaml", i)
				if random.IntN(4) == 0 {
					name = fmt.Sprintf("note %d.yaml", i)
				}
				if err := os.WriteFile(filepath.Join(w.BoxPath(agent, box), name), data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if sent[m.ID] = random.IntN(10) > 0; sent[m.ID] {
				put(m.From, mailbox.Outbox)
			}
			for _, to := range m.To {
				if random.IntN(2) == 0 {
					put(to, mailbox.Inbox)
					where[m.ID] = append(where[m.ID], to)
				}
			}
		}
		for _, agent := range agents {
			visible := func(m schema.Message, to schema.AgentName) bool { // in the mailbox of the agent
				return m.From == agent && sent[m.ID] || to == agent && slices.Contains(where[m.ID], agent)
			}
			var want []string
			for _, m := range all {
				for _, to := range m.To {
					if !m.Type.IsRequest() || !visible(m, to) || m.ExpiredAt(time.Now()) {
						continue
					}
					answered := slices.ContainsFunc(all, func(a schema.Message) bool {
						return a.From == to && (sent[a.ID] || m.From == agent && slices.Contains(where[a.ID], agent)) && a.Answers(&m)
					})
					if !answered {
						want = append(want, fmt.Sprint(m.ID, " ", to))
					}
				}
			}
			owed, err := track.OwedBy(t.Context(), w, agent)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, list := range [][]track.OpenRequest{owed.Mine, owed.Theirs} {
				if !slices.IsSortedFunc(list, func(a, b track.OpenRequest) int { return strings.Compare(string(a.CreatedAt), string(b.CreatedAt)) }) {
					t.Errorf("seed %d: what %s is about is not in the order of age: %+v", seed, agent, list)
				}
				for _, r := range list {
					if r.Answer == "" {
						got = append(got, fmt.Sprint(r.ID, " ", r.To))
					}
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: for %s these are open:\n%s\nwant\n%s", seed, agent, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// randomMessage returns the i-th message: three weeks old, to any of the other agents, often about
// an earlier message, of which it may seem older.
func randomMessage(random *rand.Rand, i int, agents []schema.AgentName, earlier []schema.Message) schema.Message {
	at := time.Now().UTC().Add(-20*24*time.Hour + time.Duration(random.IntN(72*3600))*time.Second)
	others := slices.Clone(agents)
	random.Shuffle(len(others), func(a, b int) { others[a], others[b] = others[b], others[a] })
	m := schema.Message{
		From: others[0], To: others[1 : 2+random.IntN(2)], Type: schema.Types()[random.IntN(12)], Priority: schema.P2,
		Subject: fmt.Sprint("message ", i), Body: schema.TextValue("x"),
	}
	if m.Type == schema.Handoff || m.Type == schema.HandoffComplete {
		m.Type = schema.Question // their bodies are typed
	}
	if len(earlier) > 0 && random.IntN(4) > 0 {
		parent := earlier[random.IntN(len(earlier))]
		m.ParentID = parent.ID
		at = parent.CreatedAt.Time().Add(time.Duration(random.IntN(36)-12) * time.Hour)
		if random.IntN(3) > 0 {
			m.From, m.To = parent.To[0], []schema.AgentName{parent.From}
		}
	}
	if random.IntN(4) == 0 {
		m.Marks.Final = true
	}
	if random.IntN(8) == 0 {
		m.ExpiresAt = schema.NewTimestamp(at.Add(time.Hour))
	}
	m.CreatedAt = schema.NewTimestamp(at)
	m.ID = schema.ID(fmt.Sprintf("msg-%s-%s-r%04d", at.Format("20060102T1504Z"), m.From, i))
	return m
}
