//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/staging"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

// An outcome is what an attempt to answer has led to.
type outcome struct {
	// code is that of the error, empty for none.
	code string
	// answers and questions are those that claude has from the agent.
	answers, questions int
	// box is where the message lies, and signed reports whether all that claude has is signed.
	box    mailbox.Box
	signed bool
}

// said are parts of the error texts of the codes, for fronts that show no codes.
var said = map[string][]string{
	"already_answered": {" answered message ", "handled meanwhile: "},
	"recalled":         {" was recalled: ", "taken back by claude"},
	"not_recipient":    {" was sent to gemini, not to "},
	"secret":           {"what looks like"},
	"invalid_message":  {"[contract]"},
	"claim_lost":       {"is over: "},
	"held":             {"reads only verified messages"},
	"already_working":  {"a turn of oacp run for "},
}

// A request is a row of the contract that all fronts keep.
type request struct {
	name string
	// before happens before the message is sent, sent after that, and meanwhile after the program was opened.
	before, sent, meanwhile func(*scene)
	send                    []string
	attempt                 attempt
	want                    outcome
	// others are the outcomes of single fronts, and not those that cannot try it, with the reason.
	others map[string]outcome
	not    map[string]string
}

var (
	isAnswered = outcome{answers: 1, box: mailbox.Archive}
	outside    = map[string]string{"output of a turn": "the message gets no turn"}
	noTurn     = map[string]string{
		"decide": "a person gets no turns", "web": "a person gets no turns", "person's command line": "a person gets no turns", "output of a turn": "it is the turn",
	}
	noTurnNorQuestion = map[string]string{
		"decide": noTurn["decide"], "web": noTurn["web"], "person's command line": noTurn["web"], "output of a turn": noTurn["output of a turn"],
		"Gas City": "it cannot say that a mail is a question back",
	}
	unseen = map[string]string{"output of a turn": "the message gets no turn", "decide": "it does not show the message"}
)

// requests are what fronts are asked to do.
var requests = []request{
	{name: "an answer", want: isAnswered},
	{
		name: "a second answer", meanwhile: answersFirst("443"),
		want:   outcome{code: "already_answered", answers: 1, box: mailbox.Inbox},
		others: map[string]outcome{"output of a turn": isAnswered}, // the turn is over, and so is the message
	},
	{name: "the same answer again", meanwhile: answersFirst("8080"), want: isAnswered},
	{
		name: "the same answer after a kill between its outbox and the inbox", want: isAnswered,
		meanwhile: func(s *scene) { s.reply("8080", "--final"); s.interruptDelivery() },
	},
	{
		name: "another answer after a kill between its outbox and the inbox", want: outcome{code: "already_answered", answers: 1, box: mailbox.Inbox},
		meanwhile: func(s *scene) { s.reply("443", "--final"); s.interruptDelivery() },
		others:    map[string]outcome{"output of a turn": isAnswered},
	},
	{
		name: "a second choice", send: []string{"--type", "task_request", "--choices", "yes,no"}, attempt: attempt{choose: "no"},
		meanwhile: func(s *scene) {
			s.must(s.t, "--as-person", "reply", s.id, "--from", string(s.agent), "--choose", "yes")
		},
		want: outcome{code: "already_answered", answers: 1, box: mailbox.Inbox},
		not:  map[string]string{"output of a turn": "it chooses nothing", "Gas City": "it chooses nothing"},
	},
	{
		name: "an answer to what is answered and acknowledged", meanwhile: func(s *scene) { s.reply("443", "--ack") },
		want:   outcome{code: "already_answered", answers: 1, box: mailbox.Archive},
		others: map[string]outcome{"output of a turn": isAnswered},
	},
	{
		name: "a question back", attempt: attempt{asks: true, text: "Which of both?"}, want: outcome{questions: 1, box: mailbox.Inbox},
		not: map[string]string{
			"decide": "it asks nothing back", "output of a turn": "it is always an answer", "Gas City": "it cannot say that a mail is a question back",
		},
	},
	{
		name: "an answer while a turn works on the message", sent: (*scene).work, want: outcome{code: "already_working", box: mailbox.Inbox}, not: noTurn,
	},
	{
		name: "a question back while a turn works on the message", sent: (*scene).work, attempt: attempt{asks: true, text: "Which of both?"},
		want: outcome{code: "already_working", box: mailbox.Inbox}, not: noTurnNorQuestion,
	},
	{
		name: "an answer to a recalled message", meanwhile: func(s *scene) { takeBackFrom(s.t, s.session, s.id, s.agent) },
		want: outcome{code: "recalled", box: mailbox.DeadLetters},
		not:  map[string]string{"output of a turn": "once a turn has begun, a recall comes too late"},
	},
	{
		name: "an answer to what was acknowledged meanwhile", meanwhile: func(s *scene) { s.must(s.t, "--as-person", "ack", s.id, "--agent", string(s.agent)) },
		want: isAnswered, not: map[string]string{"Gas City": "it says that the message is archived"},
	},
	{name: "an answer to an expired message", sent: (*scene).expire, want: isAnswered, not: outside},
	{
		name: "an answer to a held message", meanwhile: func(s *scene) { s.enforces(string(s.agent)) }, want: outcome{code: "held", box: mailbox.Inbox},
		not: unseen,
	},
	{
		name: "an answer to a message for another agent", send: []string{"--to", "gemini"}, want: outcome{code: "not_recipient"},
		not: unseen,
	},
	{
		name: "an answer of somebody who has a key", before: func(s *scene) { s.signs(string(s.agent)) },
		want: outcome{answers: 1, box: mailbox.Archive, signed: true},
	},
	{
		name: "a key in the text", attempt: attempt{text: "use AKIA" + "Q3EGZ7XK2LMNP4RT"}, want: outcome{code: "secret", box: mailbox.Inbox},
		others: map[string]outcome{"output of a turn": {questions: 0, answers: 1, box: mailbox.Archive}}, // a notice without the key
	},
	{
		name: "a text against its schema", before: func(s *scene) {
			check.WriteFile(s.t, filepath.Join(s.Dir, "schemas", "notification.schema.json"), `{"type": "string", "pattern": "^port "}`)
		},
		want:   outcome{code: "invalid_message", box: mailbox.Inbox},
		others: map[string]outcome{"output of a turn": {answers: 1, box: mailbox.Archive}}, // a notice
	},
	{
		name: "an answer of an old turn", before: (*scene).inGit, sent: (*scene).supersede, want: outcome{code: "claim_lost", box: mailbox.Inbox},
		not: map[string]string{"output of a turn": "another test has two machines"},
	},
}

// TestFronts asks all fronts for the same, and checks that the same happens: as files, and as the code of an error.
func TestFronts(t *testing.T) {
	t.Parallel()
	for _, r := range requests {
		for _, f := range fronts {
			if r.not[f.name] != "" {
				continue
			}
			want, ok := r.others[f.name]
			if !ok {
				want = r.want
			}
			t.Run(r.name+"/"+f.name, func(t *testing.T) {
				s := newScene(t, f.agent, r)
				answer := f.open(s)
				if r.meanwhile != nil {
					r.meanwhile(s)
				}
				an := r.attempt
				if an.text == "" && an.choose == "" {
					an.text = "8080"
				}
				code, text := answer(an)
				got := s.outcome()
				got.code = codeSaid(code, text, want.code)
				if got != want {
					t.Errorf("got %+v, want %+v:\n%s", got, want, text)
				}
			})
		}
	}
}

// codeSaid returns the code of an error, which only its text says if the code is "?".
func codeSaid(code, text, wanted string) string {
	if code == "?" && slices.ContainsFunc(said[wanted], func(part string) bool { return strings.Contains(text, part) }) {
		return wanted
	}
	return code
}

func newScene(t *testing.T, agent schema.AgentName, r request) *scene {
	t.Helper()
	s := &scene{session: newSession(t, "claude,codex,gemini"), t: t, agent: agent}
	s.env["OACP_HOME"] = t.TempDir()
	s.must(t, "add-agent", "anna", "--runtime", "human")
	if r.before != nil {
		r.before(s)
	}
	to := r.send
	if !slices.Contains(to, "--to") {
		to = append(slices.Clone(to), "--to", string(agent))
	}
	s.id = strings.TrimSpace(s.must(t, append([]string{"send", "--from", "claude", "--type", "question", "--subject", "Port?", "--body", "Which?", "-q"}, to...)...))
	if r.sent != nil {
		r.sent(s)
	}
	return s
}

// answersFirst has another process of the agent answer, which leaves the message in the inbox.
func answersFirst(text string) func(*scene) { return func(s *scene) { s.reply(text, "--final") } }

func (s *scene) reply(text string, args ...string) {
	s.must(s.t, append([]string{"--as-person", "reply", s.id, "--from", string(s.agent), "--body", text, "--again"}, args...)...)
}

// interruptDelivery puts claude's copy of the answer back to where it is until it gets into the inbox.
func (s *scene) interruptDelivery() {
	files, err := filepath.Glob(filepath.Join(s.Dir, "agents", "claude", "inbox", "*.yaml"))
	s.fatal(err)
	for _, path := range files {
		data, err := os.ReadFile(path)
		s.fatal(err)
		id := regexp.MustCompile(`(?m)^id: (\S+)$`).FindStringSubmatch(string(data))[1]
		staged := staging.Name{ID: schema.ID(id), Agent: "claude", Box: mailbox.Inbox}
		s.fatal(os.Rename(path, filepath.Join(s.Dir, "state", "outgoing", staged.Entry())))
	}
}

// replace replaces the files of the message by an old one.
func (s *scene) replace(change func(text string) string) {
	files, err := filepath.Glob(filepath.Join(s.Dir, "agents", "*", "*", "*.yaml"))
	s.fatal(err)
	for _, path := range files {
		data, err := os.ReadFile(path)
		s.fatal(err)
		s.fatal(os.Remove(path))
		check.WriteFile(s.t, filepath.Join(filepath.Dir(path), "20260313T1430Z_claude_question.yaml"), change(string(data)))
	}
}

// work has a turn work on the message until the test ends.
func (s *scene) work() {
	end := s.beginTurn()
	s.t.Cleanup(func() { _, _ = end("8080") })
}

// expire lets the message expire.
func (s *scene) expire() {
	id := s.id
	s.id = "msg-20260313T1430Z-claude-9x2k"
	s.replace(func(text string) string {
		text = regexp.MustCompile(`created_at_utc: .*`).ReplaceAllString(text, `created_at_utc: "2026-03-13T14:30:00Z"`+"\nexpires_at: \"2026-03-14T00:00:00Z\"")
		return strings.ReplaceAll(text, id, s.id)
	})
}

// inGit replaces the workspace by one that has a repository.
func (s *scene) inGit() {
	dir := s.t.TempDir()
	s.fatal(exec.CommandContext(s.t.Context(), "git", "init", "-q", dir).Run())
	s.Dir = dir
	s.must(s.t, "init", "--git", "--agents", "claude,codex,gemini")
	s.Dir = filepath.Join(dir, ".oacp")
	s.must(s.t, "add-agent", "anna", "--runtime", "human")
}

// supersede has another machine claim the message for a later turn than that to which the program belongs.
func (s *scene) supersede() {
	claim := gitmail.Claim{Machine: "other", State: gitmail.ClaimWorking, Attempt: 2, Since: time.Unix(1e9, 0).UTC(), Renewed: time.Unix(1e9, 0).UTC(), Lease: time.Minute}
	data, err := json.Marshal(claim)
	s.fatal(err)
	git := func(args ...string) string {
		out, err := exec.CommandContext(s.t.Context(), "git", append([]string{"-C", s.Dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...).Output()
		s.fatal(err)
		return strings.TrimSpace(string(out))
	}
	commit := git("commit-tree", "-m", "oacp claim 1 "+string(data), git("hash-object", "-t", "tree", "-w", "/dev/null"))
	git("update-ref", "refs/oacp/claims/"+string(s.agent)+"/"+s.id, commit)
	s.variables = []string{client.FenceVariable + "=1", "OACP_MESSAGE_ID=" + s.id}
}

func (s *scene) signs(agent string) {
	s.must(s.t, "key", "gen", "--agent", agent)
	check.WriteFile(s.t, filepath.Join(s.Dir, "agents", agent, "config.yaml"), "runtime: "+map[bool]string{true: "human", false: "codex"}[agent == "anna"]+"\nsigning:\n  sign_messages: true\n")
}

func (s *scene) enforces(agent string) {
	check.WriteFile(s.t, filepath.Join(s.Dir, "agents", agent, "config.yaml"), "signing:\n  verify_mode: enforce\n")
}

// outcome looks at the files.
func (s *scene) outcome() (o outcome) {
	w, err := mailbox.Open(s.Dir, &mailbox.Options{})
	s.fatal(err)
	defer w.Close()
	mail, err := w.List(s.t.Context(), "claude", mailbox.Inbox)
	s.fatal(err)
	signed := 0
	for _, e := range mail {
		s.fatal(e.Err)
		if e.Message.Type == schema.Question {
			o.questions++
		} else {
			o.answers++
		}
		if e.Message.Auth != "" {
			signed++
		}
	}
	o.signed = signed > 0 && signed == len(mail)
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
		files, err := filepath.Glob(filepath.Join(w.BoxPath(s.agent, box), "*.yaml"))
		s.fatal(err)
		for _, path := range files {
			data, err := os.ReadFile(path) // it may be held
			s.fatal(err)
			if strings.Contains(string(data), "id: "+s.id+"\n") {
				if o.box != "" {
					s.t.Errorf("the message lies in %s and in %s", o.box, box)
				}
				o.box = box
			}
		}
	}
	return o
}

// TestFrontsOfPersons has programs act for a person: they may not, unless she lets them.
func TestFrontsOfPersons(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"reply":    {"oacp", "reply", "ID", "--from", "anna", "--body", "8080"},
		"ack":      {"oacp", "ack", "ID", "--agent", "anna"},
		"next":     {"oacp", "next", "--agent", "anna", "--timeout", "1ms"},
		"send":     {"oacp", "send", "--from", "anna", "--to", "claude", "--type", "notification", "--subject", "s", "--body", "b"},
		"run":      {"oacp", "run", "--agent", "anna", "--once", "--reply", "--", "echo", "8080"},
		"MCP":      {"oacp-mcp", "--agent", "anna"},
		"Gas City": {"oacp-gascity", "reply", "ID"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, "anna", request{})
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "ID", s.id)
			}
			command := s.command(args[0], args[1:]...)
			command.Stdin = strings.NewReader(`{"from": "anna", "body": "8080"}`)
			out, err := command.CombinedOutput()
			if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(string(out), "anna is a person") || strings.Contains(string(out), "--as-person") {
				t.Errorf("%v: %s", err, out)
			}
			if got, want := s.outcome(), (outcome{box: mailbox.Inbox}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestFrontsOfHeld asks for everything that a verb can do with a message which its recipient does not read, and with one that
// its sender took back: each front names the same reason, and the message stays where it is.
func TestFrontsOfHeld(t *testing.T) {
	t.Parallel()
	commands := [][]string{{"reply", "ID", "--body", "8080", "--from"}, {"ack", "ID", "--agent"}, {"working", "ID", "--agent"}, {"return", "ID", "--agent"}}
	tools := []string{"reply_message", "acknowledge_message", "report_working"}
	for code, state := range map[string]struct {
		happen func(*scene)
		box    mailbox.Box
	}{
		"held":     {func(s *scene) { s.enforces("codex") }, mailbox.Inbox},
		"recalled": {func(s *scene) { takeBackFrom(s.t, s.session, s.id, s.agent) }, mailbox.DeadLetters},
	} {
		t.Run(code, func(t *testing.T) {
			s := newScene(t, "codex", request{})
			state.happen(s)
			for _, args := range commands {
				args = append(slices.Clone(args), "codex", "--json")
				args[1] = s.id
				out, _ := s.command("oacp", args...).Output() // the output has the error
				var answer struct{ Code string }
				if err := json.Unmarshal(out, &answer); err != nil || answer.Code != code {
					t.Errorf("%s: %s (%v), want the code %s", args[0], out, err, code)
				}
			}
			client := connectTools(t, &mcp.CommandTransport{Command: s.command("oacp-mcp", "--agent", "codex")})
			t.Cleanup(func() { _ = client.session.Close() })
			for _, tool := range tools {
				arguments := map[string]any{"message_id": s.id}
				if tool == "reply_message" {
					arguments["body"] = "8080"
				}
				answer, err := client.session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
				s.fatal(err)
				if text := answer.Content[0].(*mcp.TextContent).Text; !answer.IsError || !strings.HasPrefix(text, code+": ") {
					t.Errorf("%s: %s, want the code %s", tool, text, code)
				}
			}
			if got, want := s.outcome(), (outcome{box: state.box}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
