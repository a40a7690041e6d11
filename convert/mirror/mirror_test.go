package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// snapshot is what the world sees of a place: the log's records and the messages in all boxes, each
// in no order, without the times at which letters died.
func (p *place) snapshot() string {
	p.t.Helper()
	var all []string
	for _, r := range p.records() {
		line, err := r.Encode()
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, "log "+string(line))
	}
	root := p.workspace.Dir()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !schema.IsMessageFile(entry.Name()) {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, strings.TrimPrefix(path, root)+" "+string(data))
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// forget removes what mirrors remember.
func (p *place) forget() {
	p.t.Helper()
	names, err := filepath.Glob(filepath.Join(p.workspace.Dir(), stateName, "*-*"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func diff(got, want string) string {
	if got == want {
		return ""
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	var out []string
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, "got  "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out = append(out, "want "+line)
		}
	}
	return strings.Join(append(out, fmt.Sprintf("%d lines, want %d", len(a), len(b))), "\n")
}

// exampleRecords returns the example of AgentPair's bridge reference.
func exampleRecords() []bridge.Record {
	at := func(r bridge.Record, clock string) bridge.Record {
		r.Timestamp = "2024-03-28T" + clock + "Z"
		return r
	}
	return []bridge.Record{
		at(record("task", "", "claude", "codex", "Add email validation to LoginForm"), "10:00:00"),
		at(record("result", "", "codex", "claude", "Added validateEmail function..."), "10:01:00"),
		at(record("review", "", "claude", "codex", "Please add error message display"), "10:02:00"),
		at(record("result", "", "codex", "claude", "Added error message UI..."), "10:03:00"),
		at(record("signal", "DONE", "codex", "", "Validation complete"), "10:03:30"),
		at(record("signal", "PASS", "claude", "", "Looks good"), "10:04:00"),
	}
}

func (p *place) append(records ...bridge.Record) {
	p.t.Helper()
	if _, err := p.log.SendAll(context.Background(), records); err != nil {
		p.t.Fatal(err)
	}
}

func TestConversationIntoMailboxes(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.append(exampleRecords()...)
	before := p.snapshot()
	report := p.run(Both)
	if report.Delivered != 6 || !slices.Equal(report.Warnings, nil) {
		t.Errorf("got %+v, want 6 delivered", report)
	}
	if got, want := p.subjects("codex", mailbox.Inbox), "Add email validation to LoginForm|Please add error message display|Looks good"; got != want {
		t.Errorf("inbox of codex: got %s, want %s", got, want)
	}
	if got, want := p.subjects("claude", mailbox.Inbox), "Added validateEmail function...|Added error message UI...|Validation complete"; got != want {
		t.Errorf("inbox of claude: got %s, want %s", got, want)
	}
	after := p.snapshot()
	for range 2 {
		if report := p.run(Both); !report.quiet() {
			t.Errorf("a second run: got %+v, want nothing new", report)
		}
		p.forget()
	}
	if d := diff(p.snapshot(), after); d != "" {
		t.Errorf("a second run changed something:\n%s", d)
	}
	if !strings.Contains(after, before[:strings.IndexByte(before, '\n')]) || len(p.records()) != 6 {
		t.Errorf("the log changed: %d records", len(p.records()))
	}
}

func TestConversationIntoTheBridge(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	at := func(kind schema.Type, from, to schema.AgentName, minute, text string) {
		m := message(kind)
		m.ID, m.From, m.To = "", from, []schema.AgentName{to}
		m.CreatedAt = schema.Timestamp("2024-03-28T10:" + minute + "Z")
		m.Subject, m.Telemetry = text, schema.Telemetry{}
		if kind != schema.HandoffComplete {
			m.Body = schema.TextValue(text)
		}
		p.send(m)
	}
	at(schema.TaskRequest, "claude", "codex", "00:00", "Add email validation to LoginForm")
	at(schema.Notification, "codex", "claude", "01:00", "Added validateEmail function...")
	at(schema.ReviewFeedback, "claude", "codex", "02:00", "Please add error message display")
	at(schema.ReviewAddressed, "codex", "claude", "03:00", "Added error message UI...")
	at(schema.HandoffComplete, "codex", "claude", "03:30", "Validation complete")
	at(schema.ReviewLGTM, "claude", "codex", "04:00", "Looks good")
	if report := p.run(Both); report.Recorded != 6 || report.AlreadyDelivered != 6 || report.Delivered != 0 {
		t.Errorf("got %+v, want 6 recorded and none delivered", report)
	}
	for i, r := range p.records() {
		want := exampleRecords()[i]
		if r.Type != want.Type || r.Signal != want.Signal || r.From != want.From || r.Timestamp != want.Timestamp {
			t.Errorf("record %d: got %+v, want %+v", i+1, r, want)
		}
		if i != 4 && r.Content != want.Content {
			t.Errorf("record %d: got content %q, want %q", i+1, r.Content, want.Content)
		}
	}
	status, err := p.log.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if !status.HasDoneSignal || status.PassCount != 1 || status.ByAgent["claude"] != 3 || status.ByAgent["codex"] != 3 {
		t.Errorf("got status %+v", status)
	}
	after := p.snapshot()
	for range 2 {
		if report := p.run(Both); !report.quiet() {
			t.Errorf("a second run: got %+v, want nothing new", report)
		}
		p.forget()
	}
	if d := diff(p.snapshot(), after); d != "" {
		t.Errorf("a second run changed something:\n%s", d)
	}
}

func TestOneLogJoinsTwoWorkspaces(t *testing.T) {
	t.Parallel()
	a := newPlace(t, "claude", "codex", "gemini")
	b := newPlace(t, "claude", "codex")
	b = openPlace(t, b.workspace.Dir(), a.log.Path())
	many := message(schema.TaskRequest)
	many.ID, many.To = "", []schema.AgentName{"codex", "gemini"}
	sent := a.send(many)
	one := message(schema.Question)
	one.ID, one.From, one.To = "", "codex", []schema.AgentName{"claude"}
	b.send(one)
	for range 3 {
		a.run(Both)
		b.run(Both)
	}
	if got := len(a.records()); got != 3 {
		t.Errorf("got %d records, want 3", got)
	}
	inbox := b.box("codex", mailbox.Inbox)
	if len(inbox) != 1 || inbox[0].Message.ID != sent.ID || !slices.Equal(inbox[0].Message.To, []schema.AgentName{"codex"}) {
		t.Errorf("the other workspace: got %+v, want message %s to those it knows", inbox, sent.ID)
	}
	if letters := b.box("claude", mailbox.DeadLetters); len(letters) != 1 {
		t.Errorf("got %d dead letters for the agent it does not know, want 1", len(letters))
	}
	if got := len(a.box("claude", mailbox.Inbox)); got != 1 {
		t.Errorf("got %d messages from the other workspace, want 1", got)
	}
	before := a.snapshot() + b.snapshot()
	a.forget()
	b.forget()
	a.run(Both)
	b.run(Both)
	if d := diff(a.snapshot()+b.snapshot(), before); d != "" {
		t.Errorf("running again from nothing changed something:\n%s", d)
	}
}

func TestSameWordsTwice(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.append(record("task", "", "claude", "codex", "ping"))
	var ids []string
	for i := range 3 {
		m := message(schema.TaskRequest)
		m.ID = schema.ID(fmt.Sprintf("msg-20260313T143%dZ-claude-aaaa", i))
		m.CreatedAt = schema.Timestamp(fmt.Sprintf("2026-03-13T14:3%d:00Z", i))
		m.Subject, m.Body = "ping", schema.TextValue("ping")
		p.send(m)
		ids = append(ids, string(m.ID))
	}
	for range 3 {
		p.run(Both)
		p.forget()
	}
	records := p.records()
	if len(records) != 4 {
		t.Fatalf("got %d records, want 4", len(records))
	}
	for i, r := range records[1:] {
		if want := "ping\nOACP-Id: " + ids[i]; r.Content != want {
			t.Errorf("got content %q, want %q", r.Content, want)
		}
		m, err := convert.Carried(r)
		if err != nil || m == nil || string(m.ID) != ids[i] || m.Body.Text != "ping" {
			t.Errorf("going back: got %+v, %v, want the message %s", m, err, ids[i])
		}
	}
	if got := len(p.box("codex", mailbox.Inbox)); got != 4 {
		t.Errorf("got %d messages, want 4", got)
	}
}

func TestAcknowledgedMessagesStayAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.append(exampleRecords()...)
	sent := message(schema.Question)
	p.send(sent)
	p.run(Both)
	for _, agent := range []schema.AgentName{"claude", "codex"} {
		for _, e := range p.box(agent, mailbox.Inbox) {
			if err := p.workspace.Acknowledge(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.forget()
	if report := p.run(Both); report.Delivered != 0 || report.AlreadyDelivered != 7 {
		t.Errorf("got %+v, want nothing delivered again", report)
	}
}

// TestForeignFileNames checks messages that other tools put into the outbox under their own names.
func TestForeignFileNames(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	for i, name := range []string{"20260313143005_claude_question_1f2e.yaml", "20260313143104_claude_question_1f2e_suffix.yaml", "by hand.yaml"} {
		m := message(schema.Question)
		m.ID = schema.ID(fmt.Sprintf("msg-20260313143005-claude-%04d", i))
		m.Body = schema.TextValue(name)
		data, err := schema.Encode(&m)
		if err == nil {
			err = os.WriteFile(filepath.Join(p.workspace.BoxPath("claude", mailbox.Outbox), name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if report := p.run(Out); report.Recorded != 3 {
		t.Fatalf("got %+v, want 3 recorded", report)
	}
	if report := p.run(In); report.AlreadyDelivered != 3 || report.Delivered != 0 {
		t.Errorf("got %+v, want none delivered: all are from here", report)
	}
}

// TestSuffix checks that a message whose file name has a suffix is not delivered a second time.
func TestSuffix(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	if _, err := p.workspace.Send(t.Context(), message(schema.Question), &mailbox.SendOptions{Suffix: "ticket_42"}); err != nil {
		t.Fatal(err)
	}
	if report := p.run(Both); report.Recorded != 1 || report.AlreadyDelivered != 1 || report.Delivered != 0 {
		t.Errorf("got %+v, want the message recorded and not delivered again", report)
	}
}

// signedFile returns a signed message as another tool writes it: no encoder makes these bytes again.
func signedFile(t *testing.T, m schema.Message) string {
	t.Helper()
	data, err := schema.Encode(&m)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.NewKey(make([]byte, 32), m.From, "0a4e7a62-6f4b-4c1e-9d7c-5d1c0a9b8e01", "7b1d2c3e-0000-4000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signing.Sign(append([]byte("# by hand — \"ünquoted\"  \n"), data...), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}

// sendFile puts a file into the outbox of its sender.
func (p *place) sendFile(m schema.Message, file string) {
	p.t.Helper()
	name := filepath.Join(p.workspace.BoxPath(m.From, mailbox.Outbox), m.FileName())
	if err := os.WriteFile(name, []byte(file), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// files returns the bytes of the files in a box.
func (p *place) files(agent schema.AgentName, box mailbox.Box) (files []string) {
	p.t.Helper()
	for _, e := range p.box(agent, box) {
		data, err := mailbox.ReadUnscreened(p.workspace, e)
		if err != nil {
			p.t.Fatal(err)
		}
		files = append(files, string(data))
	}
	return files
}

// TestSignedMessages checks that a signed message arrives byte for byte, through a log and another
// workspace and back.
func TestSignedMessages(t *testing.T) {
	t.Parallel()
	p, other := newPlace(t, "claude", "codex"), newPlace(t, "claude", "codex")
	m := message(schema.Question)
	file := signedFile(t, m)
	p.sendFile(m, file)
	if report := p.run(Both); report.Recorded != 1 || report.AlreadyDelivered != 1 {
		t.Errorf("got %+v, want it recorded and known", report)
	}
	other = openPlace(t, other.workspace.Dir(), p.log.Path())
	for range 2 {
		other.run(Both)
		other.forget()
	}
	for agent, box := range map[schema.AgentName]mailbox.Box{"claude": mailbox.Outbox, "codex": mailbox.Inbox} {
		if got := other.files(agent, box); len(got) != 1 || got[0] != file {
			t.Errorf("the %s of %s holds %q, want %q", box, agent, got, file)
		}
	}
	if n := len(p.records()); n != 1 {
		t.Errorf("there are %d records, want 1", n)
	}
}

// TestSignedMessagesThatCannotBeDelivered checks that a signed message is never changed: not for
// some of its recipients, and not if its record lacks the file, or has another one.
func TestSignedMessagesThatCannotBeDelivered(t *testing.T) {
	t.Parallel()
	m := message(schema.Question)
	m.To = []schema.AgentName{"codex", "gemini"}
	p := newPlace(t, "claude", "codex", "gemini")
	file := signedFile(t, m)
	p.sendFile(m, file)
	p.run(Out)
	other := openPlace(t, newPlace(t, "claude", "codex").workspace.Dir(), p.log.Path())
	other.run(In)
	letters := other.files("claude", mailbox.DeadLetters)
	if len(letters) != 2 || letters[0] != file || letters[1] != file || len(other.files("codex", mailbox.Inbox)) > 0 {
		t.Errorf("the dead letters are %q, want twice %q", letters, file)
	}

	m = message(schema.Question)
	p = newPlace(t, "claude", "codex")
	p.sendFile(m, signedFile(t, m))
	p.run(Out)
	records := p.records()
	metadata, _, _ := strings.Cut(string(records[0].Metadata), `,"oacp_file"`)
	records[0].Metadata = []byte(metadata + "}")
	p = newPlace(t, "claude", "codex")
	p.append(foreign(records[0]))
	if report := p.run(In); len(report.DeadLetters) != 1 || report.Delivered > 0 {
		t.Errorf("a record without the file: got %+v, want a dead letter", report)
	}

	records[0].Metadata = []byte(metadata + `,"oacp_file":"id: x\n"}`)
	p = newPlace(t, "claude", "codex")
	p.append(foreign(records[0]))
	if p.run(In); len(p.box("codex", mailbox.Inbox)) != 1 || p.box("codex", mailbox.Inbox)[0].Message.Auth != "" {
		t.Error("a record with another file: want a message derived from the record, without a signature")
	}
}

// foreign is a record as it is read from a log, which may say what no sender here may.
func foreign(r bridge.Record) bridge.Record {
	made := bridge.Record{
		ID: r.ID, RunID: r.RunID, Type: r.Type, From: r.From, To: r.To, Content: r.Content, Signal: r.Signal,
		Timestamp: r.Timestamp, Metadata: r.Metadata, Iteration: r.Iteration,
	}
	line, err := made.Encode()
	if err == nil {
		r, err = bridge.ParseRecord(line)
	}
	if err != nil {
		panic(err)
	}
	return r
}

func TestWhatCannotBeDelivered(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.append(
		record("task", "", "claude", "codx", "mistyped"),
		record("task", "", "gemini", "codex", "from a stranger"),
		record("task", "", "stranger", "nobody", "strangers both"),
		record("task", "", "the boss", "codex", "no agent name"),
		record("task", "", "claude", "all of you", "no agent name either"),
		foreign(record("task", "", "claude", "claude", "to itself")),
		record("task", "", "claude", "codex", strings.Repeat("x", 3<<20)),
		record("task", "", "claude", "codex", strings.Repeat("long ", 10_000)),
	)
	for run := range 2 {
		report := p.run(Both)
		if run == 0 && (report.Delivered != 2 || len(report.DeadLetters) != 6) {
			t.Errorf("got %+v, want 2 delivered and 6 dead letters", report)
		}
		if run == 1 && (!report.quiet() || report.AlreadyDead != 6) {
			t.Errorf("second run: got %+v, want nothing new", report)
		}
		p.forget()
	}
	reasons := ""
	for _, e := range p.box("claude", mailbox.DeadLetters) {
		reason, err := p.workspace.Reason(e)
		if err != nil {
			t.Fatal(err)
		}
		reasons += reason.Reason + "\n"
	}
	for _, want := range []string{`has no agent "codx": it has`, `"all of you" contains a character`, `"claude" is the sender`, "truncated here and complete in the log", "line 1 of " + p.log.Path()} {
		if !strings.Contains(reasons, want) {
			t.Errorf("reasons lack %q:\n%s", want, reasons)
		}
	}
	names, err := filepath.Glob(filepath.Join(p.workspace.Dir(), stateName, "dead_letter", "*.yaml"))
	if err != nil || len(names) != 2 {
		t.Errorf("got letters of unknown senders %v, %v, want 2", names, err)
	}
	if !p.workspace.Knows("gemini") || p.workspace.Knows("stranger") || p.workspace.Knows("codx") {
		t.Error("want a mailbox for the sender and none for the receiver")
	}
	inbox := p.box("codex", mailbox.Inbox)
	if !slices.ContainsFunc(inbox, func(e mailbox.Entry) bool {
		return e.Message.Body.Get("content").Text == strings.Repeat("long ", 10_000)
	}) {
		t.Errorf("content over the length of a body is not among %+v", inbox)
	}
}

func TestBroadcastToMany(t *testing.T) {
	t.Parallel()
	agents := manyAgents(23)
	p := newPlace(t, agents...)
	p.append(record("chat", "", string(agents[3]), "", "hello all"))
	for range 2 {
		p.run(Both)
		p.forget()
		for i, agent := range agents {
			want := 1
			if i == 3 {
				want = 0
			}
			if got := len(p.box(agent, mailbox.Inbox)); got != want {
				t.Errorf("%s has %d messages, want %d", agent, got, want)
			}
		}
		if got := len(p.records()); got != 1 {
			t.Errorf("got %d records, want 1", got)
		}
	}
	if _, err := project.AddAgent(p.workspace, "latecomer", project.AgentOptions{}); err != nil {
		t.Fatal(err)
	}
	p.forget()
	if report := p.run(Both); report.Delivered != 0 {
		t.Errorf("an agent that came later: got %+v, want nothing delivered", report)
	}
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	line := func(r bridge.Record) string {
		data, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	p.write(
		line(record("task", "", "claude", "codex", "first")),
		`{"id":"torn","type":"ta`,
		"",
		"null",
		`{"type":"task","from":"claude","to":"codex","content":"`+strings.Repeat("y", 20<<20)+`"}`,
		"{\"type\":\"task\",\"from\":\"claude\",\"to\":\"codex\",\"content\":\"not \xff UTF-8\"}",
		`{"id":"a1b2c3","type":"progress","from":"claude","to":"codex","content":"unknown type"}`,
		`{"id":"d4e5","type":"signal","signal":"MAYBE","from":"claude","to":"codex","content":"unknown signal"}`,
		line(record("task", "", "claude", "codex", "last")),
	)
	p.writeRaw(`{"id":"torn at the end`)
	report := p.run(Both)
	if report.Delivered != 5 || len(report.DeadLetters) != 1 || report.DeadLetters[0].Line != 5 {
		t.Errorf("got %+v, want 5 delivered and line 5 dead", report)
	}
	var skipped []int
	for _, line := range report.Skipped {
		skipped = append(skipped, line.Line)
	}
	if !slices.Equal(skipped, []int{2, 3, 4}) {
		t.Errorf("got skipped lines %v, want 2, 3 and 4", skipped)
	}
	p.write(" and done", line(record("chat", "", "codex", "claude", "after the torn line")))
	if report := p.run(Both); report.Delivered != 1 || len(report.Skipped) != 1 || report.Skipped[0].Line != 10 {
		t.Errorf("got %+v, want 1 delivered and line 10 skipped", report)
	}
	if report := p.run(Both); !report.quiet() {
		t.Errorf("got %+v, want nothing new", report)
	}
	p.write("garbage last")
	for want := range []int{1, 0} {
		if report := p.run(In); len(report.Skipped) != 1-want {
			t.Errorf("a skipped line at the end: got %+v", report)
		}
	}
}

func TestBadOutboxFiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	outbox := p.workspace.BoxPath("claude", mailbox.Outbox)
	half := filepath.Join(outbox, "half.yaml")
	if err := os.WriteFile(half, []byte("id: msg-2026"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.send(message(schema.Question))
	report := p.run(Out)
	if report.Recorded != 1 || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], half) {
		t.Errorf("got %+v, want 1 recorded and a warning of %s", report, half)
	}
	m := message(schema.Question)
	m.ID = "msg-20260313T1430Z-claude-b8f3"
	data, err := schema.Encode(&m)
	if err == nil {
		err = os.WriteFile(half, data, 0o644) // in place: the folder does not change
	}
	if err != nil {
		t.Fatal(err)
	}
	if report := p.run(Out); report.Recorded != 1 {
		t.Errorf("got %+v, want the file recorded once it is whole", report)
	}
}

func TestLateFilesWithOldNames(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	send := func(id, created string) {
		m := message(schema.Question)
		m.ID, m.CreatedAt = schema.ID(id), schema.Timestamp(created)
		m.Body = schema.TextValue(id)
		p.send(m)
	}
	send("msg-20260313T1430Z-claude-a8f3", "2026-03-13T14:30:05Z")
	p.run(Out)
	send("msg-20010313T1430Z-claude-a8f3", "2001-03-13T14:30:05Z")
	if report := p.run(Out); report.Recorded != 1 || report.AlreadyRecorded != 1 {
		t.Errorf("got %+v, want the late message recorded", report)
	}
}

func TestAnotherLog(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.send(message(schema.Question))
	p.append(exampleRecords()...)
	p.run(Both)
	if err := os.WriteFile(p.log.Path(), []byte(`{"id":"x","type":"chat","from":"codex","to":"claude","content":"a new log"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := p.run(Both)
	if report.Delivered != 1 || report.Recorded != 1 || report.LeftOut != 6 {
		t.Errorf("got %+v, want what was sent here recorded anew, what came from the log that was left out, and 1 delivered", report)
	}
	if err := os.Remove(p.log.Path()); err != nil {
		t.Fatal(err)
	}
	if report := p.run(In); report.Delivered != 0 {
		t.Errorf("without a log: got %+v", report)
	}
	if report := p.run(Both); report.Recorded != 1 || report.LeftOut != 7 || report.Delivered != 0 {
		t.Errorf("got %+v, want what was sent here recorded anew", report)
	}
}

func TestDamagedState(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.send(message(schema.Question))
	p.append(exampleRecords()...)
	p.run(Both)
	want := p.snapshot()
	files, err := filepath.Glob(filepath.Join(p.workspace.Dir(), stateName, "*-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got state files %v, %v, want 1", files, err)
	}
	for _, file := range files {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, damaged := range [][]byte{nil, whole[:len(whole)/2], []byte("\x00\xff{{"), append(whole, "{}\n"...), whole} {
			if err := os.WriteFile(file, damaged, 0o644); err != nil {
				t.Fatal(err)
			}
			p.run(Both)
			if d := diff(p.snapshot(), want); d != "" {
				t.Errorf("%s as %q:\n%s", filepath.Base(file), damaged, d)
			}
		}
	}
}

func TestTheSameIDInAnotherWorkspace(t *testing.T) {
	t.Parallel()
	a, b := newPlace(t, "claude", "codex"), newPlace(t, "claude", "codex")
	b = openPlace(t, b.workspace.Dir(), a.log.Path())
	m := message(schema.Question)
	a.send(m)
	m.Body = schema.TextValue("something else")
	b.send(m)
	for range 3 {
		a.run(Both)
		b.run(Both)
	}
	for name, p := range map[string]*place{"first": a, "second": b} {
		if got := len(p.box("codex", mailbox.Inbox)); got != 2 {
			t.Errorf("%s workspace: got %d messages, want 2", name, got)
		}
	}
	if got := len(a.records()); got != 2 {
		t.Errorf("got %d records, want 2", got)
	}
}

// TestRecordsThatShareAnID checks records of another program: the documented id does not cover the
// signal. The first one is delivered, and the others become dead letters.
func TestRecordsThatShareAnID(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	for _, signal := range []bridge.Signal{"FAIL", "PASS", "DONE", "FAIL"} {
		line, err := record("signal", signal, "claude", "codex", "same text").Encode()
		if err != nil {
			t.Fatal(err)
		}
		p.write(string(line))
	}
	p.write(`{"id":"0123456789abcdef01","type":"chat","from":"claude","to":"codex","content":"a"}`,
		`{"id":"0123456789abcdef02","type":"chat","from":"claude","to":"codex","content":"b"}`)
	for range 3 {
		p.run(Both)
		p.forget()
	}
	if got, letters := len(p.box("codex", mailbox.Inbox)), len(p.box("claude", mailbox.DeadLetters)); got != 3 || letters != 2 {
		t.Errorf("got %d messages and %d dead letters, want 3 and 2", got, letters)
	}
	if got := len(p.records()); got != 6 {
		t.Errorf("got %d records, want 6", got)
	}
}

func TestOneInboxThatRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex", "gemini")
	inbox := p.workspace.BoxPath("gemini", mailbox.Inbox)
	if err := os.RemoveAll(inbox); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inbox, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// Because of the stranger's record, the one before it is delivered alone.
	p.append(record("chat", "", "claude", "gemini", "refused"), record("chat", "", "stranger", "codex", "fine"))
	report, err := p.mirror(In).Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), inbox) {
		t.Errorf("got error %v, want one that names %s", err, inbox)
	}
	if report.Delivered != 1 {
		t.Errorf("got %+v, want the other one delivered", report)
	}
	if err := os.Remove(inbox); err != nil {
		t.Fatal(err)
	}
	if report := p.run(In); report.Delivered != 1 || report.AlreadyDelivered != 1 {
		t.Errorf("got %+v, want the refused one delivered now", report)
	}
}

func TestOneOutboxThatRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	outbox := p.workspace.BoxPath("codex", mailbox.Outbox)
	if err := errors.Join(os.RemoveAll(outbox), os.WriteFile(outbox, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	p.send(message(schema.Question))
	report, err := p.mirror(Out).Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), outbox) || report.Recorded != 1 {
		t.Errorf("got %+v, %v, want the other one recorded and an error that names %s", report, err, outbox)
	}
}

func TestLogThatRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	p.append(exampleRecords()...)
	p.send(message(schema.Question))
	lock := p.log.Path() + ".lock"
	if err := errors.Join(os.Remove(lock), os.Mkdir(lock, 0o755)); err != nil {
		t.Fatal(err)
	}
	report, err := p.mirror(Both).Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), p.log.Path()) {
		t.Errorf("got error %v, want one that names the log", err)
	}
	if report.Delivered != 6 {
		t.Errorf("got %+v, want the other direction done", report)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if report := p.run(Both); report.Recorded != 1 {
		t.Errorf("got %+v, want the message recorded now", report)
	}
}

func TestDeliverFromAnywhere(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude", "codex")
	records := func(yield func(bridge.Entry, error) bool) {
		for i, r := range exampleRecords() {
			if !yield(bridge.Entry{Record: r, Line: i + 1}, nil) {
				return
			}
		}
		yield(bridge.Entry{}, &bridge.LineError{Path: "-", Line: 7, Err: errors.New("not JSON")})
	}
	for _, want := range []int{6, 0} {
		report, err := Deliver(context.Background(), p.workspace, "standard input", records)
		if err != nil || report.Delivered != want || report.AlreadyDelivered != 6-want || len(report.Skipped) != 1 {
			t.Errorf("got %+v, %v, want %d delivered and 1 skipped", report, err, want)
		}
	}
}

func TestUnknownDirection(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "claude")
	if _, err := p.mirror("sideways").Run(context.Background()); err == nil {
		t.Error("got no error")
	}
	for _, d := range []Direction{Both, Out, In} {
		if got, err := ParseDirection(string(d)); err != nil || got != d {
			t.Errorf("ParseDirection(%q): got %q, %v", d, got, err)
		}
	}
}

func TestReportIsPlainJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(Report{Recorded: 1, Skipped: []SkippedLine{{2, "blank line"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"recorded":1,"already_recorded":0,"delivered":0,"already_delivered":0,"already_dead":0,"skipped":[{"line":2,"reason":"blank line"}]}`
	if string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
}
