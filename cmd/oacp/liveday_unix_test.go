//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A day is what arrives in a session of claude with 50 prompts and 20 wakes: 200 messages.
const (
	promptsOfDay = 50
	wakesOfDay   = 20
	mailOfDay    = 200
	// toolsOfTurn is how many tools the model calls in a turn.
	toolsOfTurn = 3
	// turnsOfTask is for how many turns a task is not done.
	turnsOfTask = 5
)

// A turnOfDay is a turn of the model and the mail that arrives before and in it.
type turnOfDay struct {
	wakes  bool
	before []schema.Message
	during [toolsOfTurn][]schema.Message
}

// makeDay makes up the mail of a day: 40 % plain notifications, 35 % questions, 15 % tasks and 10 % urgent
// notifications. Few bodies are long, and none has more than 8,000 characters.
func makeDay(r *rand.Rand) []turnOfDay {
	day := make([]turnOfDay, promptsOfDay+wakesOfDay)
	for _, i := range r.Perm(len(day))[:wakesOfDay] {
		day[i].wakes = true
	}
	for n := range mailOfDay {
		length := min(8000, 350*math.Exp(1.1*r.NormFloat64()))
		m := schema.Message{
			From: "codex", To: []schema.AgentName{"claude"}, Subject: fmt.Sprintf("%s, part %d", prose(r, 40), n), Body: schema.TextValue(prose(r, int(length))),
		}
		switch kind := r.IntN(100); {
		case kind < 40:
			m.Type = schema.Notification
		case kind < 75:
			m.Type = schema.Question
		case kind < 90:
			m.Type = schema.TaskRequest
		default:
			m.Type, m.Priority = schema.Notification, schema.P1
		}
		at := &day[r.IntN(len(day))]
		plain := m.Type == schema.Notification && m.Priority == ""
		switch {
		case at.wakes && len(at.before) == 0 && plain:
			m.Type = schema.Question
			fallthrough
		case at.wakes, plain && r.IntN(2) == 0:
			at.before = append(at.before, m)
		default:
			tool := r.IntN(toolsOfTurn)
			at.during[tool] = append(at.during[tool], m)
		}
	}
	return day
}

// prose returns a text of about so many characters.
func prose(r *rand.Rand, characters int) string {
	words := strings.Fields("the parser fails on main since last merge because cache keeps an old key and test of limits reads it twice; see internal/limit.go line 42 for details, which branch has a fix, please review before release")
	var b strings.Builder
	for line := 0; b.Len() < characters; {
		word := words[r.IntN(len(words))]
		if line += len(word) + 1; line > 90 {
			b.WriteString("\n")
			line = len(word)
		} else if b.Len() > 0 {
			b.WriteString(" ")
		}
		b.WriteString(word)
	}
	return strings.TrimSpace(b.String())
}

// An agentsDay is a workspace in which claude lives through a day, and what that costs in tokens.
type agentsDay struct {
	*session
	t *testing.T
	w *mailbox.Workspace
	// unread is the mail that the model does not know, and tasks are those that it works on, with the turn
	// that they came in.
	unread map[schema.ID]*schema.Message
	tasks  map[schema.ID]int
	turn   int
	cost   map[string]int
}

func newAgentsDay(t *testing.T) *agentsDay {
	t.Helper()
	a := &agentsDay{session: newSession(t, "claude,codex"), t: t, unread: make(map[schema.ID]*schema.Message), tasks: make(map[schema.ID]int), cost: make(map[string]int)}
	a.env["CLAUDE_PID"] = strconv.Itoa(os.Getpid())
	a.Now = func() time.Time { return time.Now().Add(time.Duration(a.turn) * 5 * time.Minute) } // a turn takes some minutes
	var err error
	if a.w, err = mailbox.Open(a.Dir, &mailbox.Options{NoSync: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.w.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *agentsDay) receive(drafts ...schema.Message) {
	a.t.Helper()
	for _, result := range a.w.SendAll(a.t.Context(), drafts, nil) {
		if result.Err != nil {
			a.t.Fatal(result.Err)
		}
		a.unread[result.Receipt.Message.ID] = result.Receipt.Message
	}
	if err := os.Chtimes(a.w.BoxPath("claude", mailbox.Inbox), a.Now(), a.Now()); err != nil {
		a.t.Fatal(err)
	}
}

// on returns what the hook of an event says.
func (a *agentsDay) on(event string) string {
	a.t.Helper()
	a.In = strings.NewReader(`{"hook_event_name":"` + event + `","session_id":"5e6f","source":"startup","file_path":"/new.yaml","event":"add"}`)
	switch a.run(a.t.Context(), "hook", "claude") {
	case 0:
	case 2:
		return a.stderr.String()
	default:
		a.t.Fatalf("%s: %s", event, a.stderr.String())
	}
	var out struct {
		Specific struct {
			Context string `json:"additionalContext"`
		} `json:"hookSpecificOutput"`
	}
	if text := a.stdout.String(); text != "" {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			a.t.Fatalf("%s: %s", event, text)
		}
	}
	return out.Specific.Context
}

// listen is what the model does with what a hook says: it reads the messages whose bodies are not complete.
func (a *agentsDay) listen(what, text string) {
	a.t.Helper()
	a.cost[what] += live.Tokens(text)
	for id, m := range a.unread {
		// The digest has the whole id if another id begins like the short one.
		if !strings.Contains(text, "\n- "+id.Short()+" ") && !strings.Contains(text, "\n- "+string(id)+" ") {
			continue
		}
		for line := range strings.Lines(m.Body.Text) {
			if !strings.Contains(text, "| "+strings.TrimSpace(line)+"\n") {
				a.cost["oacp read"] += live.Tokens(a.must(a.t, "read", string(id)))
				a.cost["calls of oacp read"]++
				break
			}
		}
		a.know(id)
	}
}

// know says that the model knows a message.
func (a *agentsDay) know(id schema.ID) {
	if a.unread[id].Type == schema.TaskRequest {
		a.tasks[id] = a.turn
	}
	delete(a.unread, id)
}

// finish ends a turn: the model has handled what it knows, but for tasks, which take some turns.
func (a *agentsDay) finish() {
	a.t.Helper()
	entries, err := a.w.Inbox(a.t.Context(), "claude")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, e := range entries {
		since, isTask := a.tasks[e.Message.ID]
		if a.unread[e.Message.ID] != nil || isTask && a.turn < since+turnsOfTask {
			continue
		}
		if err := a.w.Acknowledge(e); err != nil {
			a.t.Fatal(err)
		}
	}
	a.turn++
}

// TestDayOfMail compares what a day of mail costs a model whose session has hooks, and one that lists its
// inbox at each prompt and reads what is new. Acknowledging and answering cost both the same, and are not
// counted.
func TestDayOfMail(t *testing.T) {
	if testing.Short() {
		t.Skip("this test waits for each wake")
	}
	t.Parallel()
	day := makeDay(rand.New(rand.NewPCG(1, 2)))
	shown, wakes := throughHooks(t, day)
	listed := throughLists(t, day)
	slices.Sort(wakes)
	bodies := 0
	for _, turn := range day {
		for _, m := range slices.Concat(append(turn.during[:], turn.before)...) {
			bodies += live.Tokens(m.Body.Text)
		}
	}
	t.Logf("the bodies alone have %d tokens", bodies)
	t.Logf("a wake costs %d to %d tokens, %d in the median", wakes[0], wakes[len(wakes)-1], wakes[len(wakes)/2])
	t.Logf("with hooks: %v", shown)
	t.Logf("with lists: %v", listed)
	with := shown["hooks"] + shown["wakes"] + shown["oacp read"]
	for _, other := range []string{"oacp inbox", "list_inbox"} {
		reading := map[string]string{"oacp inbox": "oacp read", "list_inbox": "read_message"}[other]
		without := listed[other] + listed[reading]
		t.Logf("%d tokens with hooks, %d with %s", with, without, other)
		if with*10 > without*9 {
			t.Errorf("hooks cost %d tokens, want at most 0.9 times the %d of %s", with, without, other)
		}
	}
}

// throughHooks lets hooks show the mail of a day.
func throughHooks(t *testing.T, day []turnOfDay) (cost map[string]int, wakes []int) {
	t.Helper()
	a := newAgentsDay(t)
	a.listen("hooks", a.on(live.SessionStart))
	for _, turn := range day {
		a.receive(turn.before...)
		if turn.wakes {
			text := a.on(live.FileChanged)
			a.listen("wakes", text)
			wakes = append(wakes, live.Tokens(text))
		}
		a.listen("hooks", a.on(live.UserPromptSubmit))
		for _, mail := range turn.during {
			a.receive(mail...)
			a.listen("hooks", a.on(live.PostToolUse))
		}
		a.listen("hooks", a.on(live.Stop))
		a.finish()
	}
	a.listen("hooks", a.on(live.UserPromptSubmit))
	if len(a.unread) > 0 {
		t.Errorf("the model knows nothing of %d messages", len(a.unread))
	}
	return a.cost, wakes
}

// throughLists lets the model list its inbox at each prompt, with the command line and with the MCP server.
func throughLists(t *testing.T, day []turnOfDay) map[string]int {
	t.Helper()
	a := newAgentsDay(t)
	command := exec.Command("oacp", "mcp", "--agent", "claude")
	command.Dir, command.Env = a.Dir, append(os.Environ(), "HOME="+t.TempDir())
	client := connectTools(t, &mcp.CommandTransport{Command: command})
	t.Cleanup(func() {
		if err := client.session.Close(); err != nil {
			t.Error(err)
		}
	})
	list := func() {
		a.cost["oacp inbox"] += live.Tokens(a.must(t, "inbox", "--agent", "claude"))
		a.cost["list_inbox"] += live.Tokens(client.call(t, "list_inbox", nil))
		for id := range a.unread {
			a.cost["oacp read"] += live.Tokens(a.must(t, "read", string(id)))
			a.cost["read_message"] += live.Tokens(client.call(t, "read_message", map[string]any{"message_id": id}))
			a.cost["calls"]++
			a.know(id)
		}
		a.cost["calls"]++
		a.finish()
	}
	for _, turn := range day {
		a.receive(turn.before...)
		if !turn.wakes {
			list()
		}
		for _, mail := range turn.during {
			a.receive(mail...)
		}
	}
	list()
	return a.cost
}
