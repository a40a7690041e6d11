//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// stageMaker makes messages from claude to codex, one for each stage. All are in one conversation, and the last part of
// the id is also the subject.
type stageMaker struct {
	t *testing.T
	w *mailbox.Workspace
	j *track.Journal
	// made counts messages: each is created a second after the one before.
	made int
}

// stageMakers has the last part of the id of each message, its stage, and what brings it there after it was sent.
var stageMakers = []struct {
	id    string
	stage track.Stage
	reach func(*stageMaker, *schema.Message)
}{
	{"wait", track.StageWaiting, nil},
	{"asks", track.StageNoticed, func(s *stageMaker, m *schema.Message) { s.reply("qask", "codex", schema.Question, m) }},
	{"back", track.StageNoticed, func(s *stageMaker, m *schema.Message) {
		s.reply("aback", "claude", schema.Notification, s.reply("qback", "codex", schema.Question, m))
	}},
	{"noti", track.StageNoticed, func(s *stageMaker, m *schema.Message) {
		s.check(track.NoteNoticed(s.w, "codex", []track.Key{track.KeyOf(m)}, track.Noticed{}))
	}},
	{"turn", track.StageWorking, func(s *stageMaker, m *schema.Message) { s.fact(track.Started, m, "") }},
	{"word", track.StageWorking, func(s *stageMaker, m *schema.Message) {
		s.check(track.NoteWorking(s.w, "codex", track.KeyOf(m), "half done", track.Holder{}))
	}},
	{"hold", track.StageHeld, func(s *stageMaker, m *schema.Message) { s.fact(track.Held, m, "a person decides") }},
	{"expi", track.StageExpired, nil},
	{"fini", track.StageDone, func(s *stageMaker, m *schema.Message) { s.check(s.w.Acknowledge(s.pending(m))) }},
	{"answ", track.StageAnswered, func(s *stageMaker, m *schema.Message) {
		s.reply("aansw", "codex", schema.Notification, m)
		s.check(s.w.Acknowledge(s.pending(m)))
	}},
	{"here", track.StageAnswered, func(s *stageMaker, m *schema.Message) { s.reply("ahere", "codex", schema.Notification, m) }},
	{"decl", track.StageDeclined, func(s *stageMaker, m *schema.Message) { s.decline("adecl", m) }},
	{"late", track.StageAnswered, func(s *stageMaker, m *schema.Message) {
		s.decline("blate", m)
		s.reply("alate", "codex", schema.Notification, m)
	}},
	{"lost", track.StageDead, func(s *stageMaker, m *schema.Message) {
		_, err := s.w.DeadLetter(s.pending(m), mailbox.DeadLetterReason{Reason: "given up", Attempts: 3})
		s.check(err)
	}},
	{"reca", track.StageRecalled, recallIt},
	{"unkn", track.StageUnknown, func(s *stageMaker, m *schema.Message) {
		s.check(os.Remove(s.pending(m).Path))
		sent, err := s.w.List(s.t.Context(), "claude", mailbox.Outbox)
		s.check(err)
		i := slices.IndexFunc(sent, func(e mailbox.Entry) bool { return e.Message.ID == m.ID })
		s.check(os.Remove(sent[i].Path))
	}},
	{"nots", track.StageNotSent, nil},
	{"gone", track.StageAgentRemoved, nil},
	{"gonf", track.StageDone, func(s *stageMaker, m *schema.Message) { s.check(s.w.Acknowledge(s.pending(m))) }},
	{"gona", track.StageAnswered, func(s *stageMaker, m *schema.Message) {
		s.reply("again", "grok", schema.Notification, m)
		s.check(s.w.Acknowledge(s.pending(m)))
	}},
	{"gonr", track.StageRecalled, recallIt},
	{"gonl", track.StageDead, func(s *stageMaker, m *schema.Message) {
		_, err := s.w.DeadLetter(s.pending(m), mailbox.DeadLetterReason{Reason: "given up", Attempts: 3})
		s.check(err)
	}},
	// the next message that anyone sends delivers it
	{"stor", track.StageStored, func(s *stageMaker, m *schema.Message) {
		queued := staging.Name{ID: m.ID, Agent: "codex", Box: mailbox.Inbox}.Entry()
		s.check(os.Rename(s.pending(m).Path, filepath.Join(s.w.Dir(), "state", "outgoing", queued)))
	}},
}

func recallIt(s *stageMaker, m *schema.Message) {
	s.check(mailbox.Recall(s.t.Context(), s.w, m, m.To[0]))
}

// removed is the agent of the messages whose ids begin with gon. It is removed when they are where they should be.
const removed schema.AgentName = "grok"

func (s *stageMaker) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stageMaker) pending(m *schema.Message) mailbox.Entry {
	e, err := s.w.Pending(s.t.Context(), string(m.ID), m.To[0])
	s.check(err)
	return e
}

func (s *stageMaker) fact(kind track.FactKind, m *schema.Message, reason string) {
	f := kind.Of(&track.Envelope{Key: track.KeyOf(m), From: m.From, Type: m.Type, Subject: m.Subject, Conversation: m.ConversationID})
	f.Reason = reason
	s.check(s.j.Append(f, false))
}

// message returns a message whose id ends in the text.
func (s *stageMaker) message(id string, from, to schema.AgentName, of schema.Type) schema.Message {
	m := mailboxtest.Message(id, s.made)
	m.ID = schema.ID(fmt.Sprintf("msg-20260313T1430Z-%s-%s", from, id))
	m.From, m.To, m.Type, m.Subject, m.ConversationID = from, []schema.AgentName{to}, of, id, "conv-20260313-claude-1"
	s.made++
	return m
}

func (s *stageMaker) reply(id string, from schema.AgentName, of schema.Type, to *schema.Message) *schema.Message {
	m := s.message(id, from, to.From, of)
	m.ParentID = to.ID
	return mailboxtest.Send(s.t, s.w, m).Message
}

func (s *stageMaker) decline(id string, of *schema.Message) {
	m := s.message(id, of.To[0], of.From, schema.Notification)
	m.ParentID, m.Body = of.ID, schema.TextValue("No time\nuntil Monday.")
	m.Decline()
	mailboxtest.Send(s.t, s.w, m)
}

// newStages makes a workspace that has all stages, until the test ends.
func newStages(t *testing.T) *mailbox.Workspace {
	s := &stageMaker{t: t, w: mailboxtest.New(t, "claude", "codex", "gemini", removed)}
	lock, err := track.LockInbox(t.Context(), s.w, "codex", mailboxtest.Time)
	s.check(err)
	t.Cleanup(func() { s.check(lock.Release()) })
	s.j, err = track.OpenJournal(s.w, "codex", time.Now)
	s.check(err)
	defer func() { s.check(s.j.Close()) }()
	var unsent string
	for _, maker := range stageMakers {
		to := schema.AgentName("codex")
		if strings.HasPrefix(maker.id, "gon") {
			to = removed
		}
		m := s.message(maker.id, "claude", to, schema.Question)
		switch maker.stage {
		case track.StageExpired:
			m.ExpiresAt = "2026-03-13T15:00:00Z"
			for _, agent := range []schema.AgentName{"claude", "codex"} {
				box := map[schema.AgentName]mailbox.Box{"claude": mailbox.Outbox, "codex": mailbox.Inbox}[agent]
				mailboxtest.Place(t, s.w, agent, box, "20260313T1430Z_claude_question_expired.yaml", m)
			}
			continue
		case track.StageUnknown:
			m.To = append(m.To, "gemini")
		}
		sent := mailboxtest.Send(t, s.w, m).Message
		if maker.reach != nil {
			maker.reach(s, sent)
		}
		if maker.stage == track.StageNotSent {
			name, err := sent.LongFileName()
			s.check(err)
			unsent = name
		}
	}
	s.check(mailbox.RemoveAgent(t.Context(), s.w, removed))
	// From here on, the workspace is one that syncs with a remote.
	s.check(mailbox.Carried(s.w, nil))
	check.WriteFile(t, filepath.Join(s.w.Dir(), "state", "unsent", unsent), "")
	return s.w
}

// differing are the parts of the outputs that differ from run to run.
var differing = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`"(pid|host|mark|since|at|requested_at|started|last|activity)": ?("[^"]*"|\d+)`), `"$1": "…"`},
	{regexp.MustCompile(`\b\d+[smhd]\b`), "AGE"},
	{regexp.MustCompile(`(?m)\S*/\.*agentpair\S*`), "…"},
	{regexp.MustCompile(`  +`), "  "},
	{regexp.MustCompile(`(?m)^\S+  20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC$`), "NOW"},
	{regexp.MustCompile(`(?m)(at|since|again at) \d\d:\d\d:\d\dZ`), "$1 CLOCK"},
	{regexp.MustCompile(`at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ`), "at CLOCK"},
}

// TestStages shows a message of every stage in every view, and checks that each has the same word everywhere.
func TestStages(t *testing.T) {
	w := newStages(t)
	run := func(input string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "oacp", args...)
		command.Dir, command.Stdin = w.Dir(), strings.NewReader(input)
		command.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(w.Dir()), "TZ=UTC")
		var stderr bytes.Buffer
		command.Stderr = &stderr
		out, err := command.Output()
		if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
			t.Fatal(err)
		}
		shown := strings.ReplaceAll(string(out)+stderr.String(), w.Dir(), "WORK")
		for _, d := range differing {
			shown = d.pattern.ReplaceAllString(shown, d.instead)
		}
		return strings.ReplaceAll(shown, "  \n", "\n")
	}
	guide, help := check.ReadFile(t, filepath.Join("..", "..", "docs", "turns.md")), run("", "help", "status")
	for _, maker := range stageMakers {
		if !strings.Contains(guide, "| `"+string(maker.stage)+"` |") || !regexp.MustCompile(`(?m)^ .*\b`+string(maker.stage)+`\b`).MatchString(help) {
			t.Errorf("docs/turns.md or help status lacks the stage %s", maker.stage)
		}
	}
	var progress, progressJSON string
	for _, maker := range stageMakers {
		progress += run("", "status", maker.id)
		progressJSON += run("", "status", maker.id, "--json")
	}
	for _, view := range []struct{ name, out string }{
		{"list.txt", run("", "list")}, {"list.json", run("", "list", "--json")},
		{"status.txt", progress}, {"status.json", progressJSON},
		{"thread.txt", run("", "thread", "wait")}, {"thread.json", run("", "thread", "wait", "--json")},
		{"owed.txt", run("", "owed", "--agent", "claude") + run("", "owed", "--agent", "codex")},
		{"owed.json", run("", "owed", "--agent", "claude", "--json") + run("", "owed", "--agent", "codex", "--json")},
		{"inbox.txt", run("", "inbox", "--agent", "codex")}, {"inbox.json", run("", "inbox", "--agent", "codex", "--json")},
		{"dashboard.txt", run("", "dashboard", "--once")}, {"dashboard.json", run("", "dashboard", "--once", "--json")},
		{"mcp.json", mcpAnswers(t, run)},
	} {
		checkStages(t, view.name, view.out)
		path := filepath.Join("testdata", "stages", view.name)
		if *update {
			if err := os.WriteFile(path, []byte(view.out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || view.out != string(want) {
			t.Errorf("%s (%v): got:\n%s\n(go test ./cmd/oacp -run TestStages -update rewrites it)", path, err, view.out)
		}
	}
}

// mcpAnswers returns what the tools of the MCP server answer, one a line.
func mcpAnswers(t *testing.T, run func(input string, args ...string) string) (answers string) {
	for _, call := range [][]string{
		{"codex", `"list_inbox","arguments":{"limit":50}`},
		{"codex", `"show_thread","arguments":{"message_id":"wait","limit":50}`},
		{"claude", `"list_owed","arguments":{"limit":50}`},
	} {
		input := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":` + call[1] + `}}` + "\n"
		for line := range strings.Lines(run(input, "mcp", "--agent", call[0])) {
			var answer struct {
				Result struct{ StructuredContent json.RawMessage }
			}
			if err := json.Unmarshal([]byte(line), &answer); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			answers += string(answer.Result.StructuredContent)
		}
		answers += "\n"
	}
	return answers
}

// checkStages checks that the view shows each message with its stage, and no other one.
func checkStages(t *testing.T, view, out string) {
	t.Helper()
	for _, maker := range stageMakers {
		if strings.HasSuffix(view, ".txt") {
			for line := range strings.Lines(out) {
				isIts := regexp.MustCompile(`  `+maker.id+`\n$`).MatchString(line) || strings.HasPrefix(line, maker.id+" ")
				unsaid := view == "inbox.txt" && maker.stage == track.StageWaiting
				if isIts && !strings.Contains(line, "  gemini  ") && !unsaid && !regexp.MustCompile(`\b`+string(maker.stage)+`\b`).MatchString(line) {
					t.Errorf("%s: %q, want %s", view, line, maker.stage)
				}
			}
		}
	}
	for d := json.NewDecoder(strings.NewReader(out)); strings.HasSuffix(view, ".json"); {
		var value any
		if d.Decode(&value) != nil {
			break
		}
		checkStagesIn(t, view, value)
	}
}

// checkStagesIn checks the stages of the messages in a JSON value.
func checkStagesIn(t *testing.T, view string, value any) {
	t.Helper()
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			checkStagesIn(t, view, element)
		}
	case map[string]any:
		id := fmt.Sprint(value["id"], value["message_id"])
		for _, maker := range stageMakers {
			stage, isThere := value["stage"]
			if isThere && value["to"] != "gemini" && value["agent"] != "gemini" && strings.Contains(id, "-claude-"+maker.id) && stage != string(maker.stage) {
				t.Errorf("%s: the stage of %s is %v, want %s", view, maker.id, stage, maker.stage)
			}
		}
		for _, element := range value {
			checkStagesIn(t, view, element)
		}
	}
}
