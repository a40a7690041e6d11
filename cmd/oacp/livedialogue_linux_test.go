package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/internal/testing/terminal"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// errand is what the user of codex says.
const errand = "ask claude whether #42 is done"

var record = flag.String("record", "", "write what TestDialogue shows to a `file`")

// A dialogue is a project with the real claude and codex in terminals, connected by oacp setup, and a
// scripted model behind both.
type dialogue struct {
	t                   *testing.T
	began               time.Time
	oacp, home, project string
	// env is that of the person and of the programs.
	env           []string
	w             *mailbox.Workspace
	server        *modelstub.Server
	claude, codex *terminal.Terminal
	// permits are closed when the model may take a step.
	permits map[string]chan struct{}
	// shown is what to record.
	shown strings.Builder
}

// The steps for which the model needs a permit.
const (
	claudeReads       = "claude reads"
	claudeReplies     = "claude replies"
	codexAcknowledges = "codex acknowledges"
)

func newDialogue(t *testing.T) *dialogue {
	t.Helper()
	programs := filepath.Dir(modelstub.Program(t, "claude"))
	modelstub.Program(t, "codex")
	bin, err := os.MkdirTemp("/tmp", "oacp") // commands of codex see no folder in /dev
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(bin); err != nil {
			t.Error(err)
		}
	})
	home := t.TempDir()
	outlive(t, home)
	d := &dialogue{
		t: t, began: time.Now(), oacp: filepath.Join(bin, "oacp"), home: home, project: filepath.Join(t.TempDir(), "shop"),
		permits: make(map[string]chan struct{}),
	}
	for _, step := range []string{claudeReads, claudeReplies, codexAcknowledges} {
		d.permits[step] = make(chan struct{})
	}
	if err := os.Mkdir(d.project, 0o700); err != nil {
		t.Fatal(err)
	}
	mustRun(t, ".", "go", "build", "-o", bin, ".", "../oacp-mcp")
	mustRun(t, d.project, "git", "init", "--quiet")
	d.server = modelstub.Start(t, d.model)
	d.env = append(d.server.ClaudeTerminalEnv(t, home, d.project), d.server.CodexTerminalEnv(t, home, d.project)...)
	path := strings.Join([]string{bin, programs, os.Getenv("PATH")}, string(os.PathListSeparator))
	d.env = append(d.env, "PATH="+path, "SHELL=/bin/bash", "OACP_AGENT=", "AGENT_NAME=", "OACP_RUNNER=")
	// The shell that codex runs commands in is one for a login.
	if err := os.WriteFile(filepath.Join(home, ".profile"), []byte("export PATH="+visible.ShellCommand(path)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// connect makes a workspace and connects both programs, as a person does.
func (d *dialogue) connect() {
	d.t.Helper()
	d.title("A project, and both programs connected")
	d.run("oacp init --agents claude,codex")
	d.run("oacp setup claude --agent claude")
	d.run("oacp setup codex --agent codex")
	var err error
	if d.w, err = mailbox.Open(filepath.Join(d.project, ".oacp"), nil); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := d.w.Close(); err != nil {
			d.t.Error(err)
		}
	})
}

// open opens both programs and waits until they are idle. Codex begins its session with the first prompt.
func (d *dialogue) open() {
	d.t.Helper()
	d.title("Both programs open")
	modelstub.TrustCodexHooks(d.t, d.home, filepath.Join(d.project, ".codex", "hooks.json"))
	options := terminal.Options{Dir: d.project, Env: d.env, Columns: 110, Lines: 36}
	options.Command = []string{"claude"}
	d.claude = terminal.Start(d.t, options)
	options.Command = []string{"codex"}
	d.codex = terminal.Start(d.t, options)
	d.t.Cleanup(d.explain)
	d.claude.Await("for shortcuts")
	d.codex.Await("stub-model default")
	d.codex.Say("good morning")
	d.codex.Await("Good morning to you.")
	d.awaitIdle("codex")
}

// explain logs the screens and the sessions if the test failed.
func (d *dialogue) explain() {
	if !d.t.Failed() {
		return
	}
	d.t.Logf("claude:\n%s\ncodex:\n%s", d.claude.Screen(), d.codex.Screen())
	files, _ := filepath.Glob(filepath.Join(d.w.Dir(), "state", "live", "*", "[!.]*")) // not the locks
	for _, file := range files {
		data, err := os.ReadFile(file)
		d.t.Logf("%s: %s %v", file, data, err)
	}
}

// run runs a command of the person and returns its standard output.
func (d *dialogue) run(line string) string {
	d.t.Helper()
	command := exec.Command(d.oacp, strings.Fields(line)[1:]...)
	command.Dir, command.Env = d.project, append(os.Environ(), d.env...)
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s%s", line, err, out, complaints.String())
	}
	d.block("$ " + line + "\n" + string(out))
	return string(out)
}

// awaitIdle waits until a turn of the agent's only session has ended, and no other has begun.
func (d *dialogue) awaitIdle(agent schema.AgentName) {
	d.t.Helper()
	if err := awaitSessions(d.t, d.w, agent, isIdle); err != nil {
		d.t.Fatalf("waiting until %s is idle: %v\n%s\n%s", agent, err, d.claude.Screen(), d.codex.Screen())
	}
}

// close closes both programs and waits until nothing follows their sessions.
func (d *dialogue) close() {
	d.t.Helper()
	d.title("Both programs close")
	sessions, err := live.Sessions(d.w, "codex")
	if err != nil || len(sessions) != 1 {
		d.t.Fatalf("the sessions of codex: %+v, %v", sessions, err)
	}
	follower := followerOf(d.t, d.w, sessions[0].ID)
	d.claude.Say("/exit")
	d.codex.Say("/quit")
	for name, term := range map[string]*terminal.Terminal{"claude": d.claude, "codex": d.codex} {
		if status := term.Wait(); status != 0 {
			d.t.Errorf("%s ended with status %d", name, status)
		}
	}
	err = awaitSessions(d.t, d.w, "codex", func(sessions []live.Session) bool { return len(sessions) == 0 && !isRunning(d.t, follower) })
	if err != nil {
		d.t.Errorf("waiting for the end of the session of codex: %v", err)
	}
	if out := d.run("oacp live"); !strings.HasPrefix(out, "no live sessions") {
		d.t.Errorf("closed sessions are listed:\n%s", out)
	}
}

// title begins a part of the record.
func (d *dialogue) title(text string) {
	fmt.Fprintf(&d.shown, "\n## %s\n\n%.1f s\n", text, time.Since(d.began).Seconds())
}

// block records a text, without most of its empty lines.
func (d *dialogue) block(text string) {
	text = regexp.MustCompile(`\n{3,}`).ReplaceAllString(strings.Trim(text, "\n"), "\n\n")
	fmt.Fprintf(&d.shown, "\n```\n%s\n```\n", text)
}

// show records a screen.
func (d *dialogue) show(name string, term *terminal.Terminal) {
	d.t.Helper()
	fmt.Fprintf(&d.shown, "\nThe terminal of %s:\n", name)
	d.block(term.Screen())
}

// showAll records both screens and the sessions.
func (d *dialogue) showAll() {
	d.t.Helper()
	d.show("claude", d.claude)
	d.show("codex", d.codex)
	d.run("oacp live")
}

// showRequest records what is new in a request to the model: the results of tools, or what a hook says.
func (d *dialogue) showRequest(name string, r modelstub.Request) {
	fmt.Fprintf(&d.shown, "\nThe model of %s gets:\n", name)
	if len(r.Results) > 0 {
		d.block(outputOf(r))
		return
	}
	for _, text := range r.Context {
		if named.MatchString(text) {
			d.block(text)
		}
	}
}

// write writes the record if the flag says so.
func (d *dialogue) write() {
	if *record == "" {
		return
	}
	text := "# Claude and codex talk\n\nBoth programs are real, in terminals. The model behind them is a script.\n" + d.shown.String()
	text = strings.NewReplacer(filepath.Dir(d.project), "~", d.home, "~").Replace(text)
	if err := os.WriteFile(*record, []byte(text), 0o644); err != nil {
		d.t.Error(err)
	}
}

// model is the model behind both programs. It knows only what a request holds.
func (d *dialogue) model(ctx context.Context, r modelstub.Request) modelstub.Reply {
	step, reply := codexModel(r)
	if r.API == modelstub.Messages {
		step, reply = claudeModel(r)
	}
	if permit := d.permits[step]; permit != nil {
		select {
		case <-permit:
		case <-ctx.Done():
		}
	}
	return reply
}

var (
	// named is the line of a digest that names a message.
	named = regexp.MustCompile(`(?m)^- (\w+) (\w+) P\d from (\w+),`)
	// sent is what oacp send and oacp reply print.
	sent = regexp.MustCompile(`(?m)^sent (\w+) to `)
	// failed is what they or the shell print instead.
	failed = regexp.MustCompile(`(?m)^\S*(oacp|bash): `)
)

// claudeModel finds a question in its mail, reads it and answers it.
func claudeModel(r modelstub.Request) (step string, reply modelstub.Reply) {
	bash := func(line string) modelstub.Reply {
		return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "Bash", Input: map[string]any{"command": line, "description": "uses the mailbox"}}}}
	}
	id := mentioned(r, "question", "codex")
	output := outputOf(r)
	switch {
	case id == "":
		return "", modelstub.Reply{Text: "I have nothing to do."}
	case output == "":
		return claudeReads, bash("oacp read " + id)
	case sent.MatchString(output):
		return "", modelstub.Reply{Text: "I told codex that #42 is done."}
	}
	return claudeReplies, bash("oacp reply " + id + ` --ack --body "Yes, #42 is merged since this morning."`)
}

// codexModel does what its user asks for, and acknowledges an answer in its mail.
func codexModel(r modelstub.Request) (step string, reply modelstub.Reply) {
	shell := func(line string) modelstub.Reply {
		return modelstub.Reply{Calls: []modelstub.ToolCall{{Name: "exec_command", Input: map[string]any{"cmd": line}}}}
	}
	id := mentioned(r, "notification", "claude")
	output := outputOf(r)
	switch {
	case r.Prompt == "good morning":
		return "", modelstub.Reply{Text: "Good morning to you."}
	case r.Prompt == errand && output == "":
		return "", shell(`oacp send --to claude --type question --subject "Is #42 done?" --body "The release waits for it."`)
	case r.Prompt == errand:
		return "", modelstub.Reply{Text: "I asked claude."}
	case id == "":
		return "", modelstub.Reply{Text: "I see no mail."}
	case output == "":
		return codexAcknowledges, shell("oacp ack " + id)
	}
	return "", modelstub.Reply{Text: "Claude says that #42 is merged since this morning."}
}

// mentioned returns the id of the newest message of the type and sender in what hooks said.
func mentioned(r modelstub.Request, kind, sender string) (id string) {
	for _, text := range append(slices.Clone(r.Context), r.Prompts...) {
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			if match[2] == kind && match[3] == sender {
				id = match[1]
			}
		}
	}
	return id
}

// outputOf returns what the tools gave back that the model called last.
func outputOf(r modelstub.Request) string {
	var outputs []string
	for _, result := range r.Results {
		outputs = append(outputs, result.Output)
	}
	return strings.Join(outputs, "\n")
}

// await waits for a request by the API, whose model is then at the step.
func (d *dialogue) await(api string, is func(modelstub.Request) bool) modelstub.Request {
	d.t.Helper()
	r := d.server.Await(d.t, func(r modelstub.Request) bool { return r.API == api && is(r) })
	d.showRequest(map[string]string{modelstub.Messages: "claude", modelstub.Responses: "codex"}[api], r)
	return r
}

// awaitSent waits until a model gets what its call of oacp send or oacp reply printed, and returns the id
// of the message.
func (d *dialogue) awaitSent(api string) string {
	d.t.Helper()
	r := d.await(api, func(r modelstub.Request) bool {
		return sent.MatchString(outputOf(r)) || failed.MatchString(outputOf(r))
	})
	match := sent.FindStringSubmatch(outputOf(r))
	if match == nil {
		d.t.Fatalf("no message is sent:\n%s", outputOf(r))
	}
	return match[1]
}

// wantStatus checks how far a message got with its recipient.
func (d *dialogue) wantStatus(id, pattern string) {
	d.t.Helper()
	if out := d.run("oacp status " + id); !regexp.MustCompile(pattern).MatchString(out) {
		d.t.Errorf("the status does not match %s:\n%s", pattern, out)
	}
}

// TestDialogue checks with the real claude and codex in two terminals that the user of codex gets an answer
// from claude, whose session is idle: mail wakes both, the models work with what the hooks show them, and
// oacp status says how far each message got. -record writes down what it looks like.
func TestDialogue(t *testing.T) {
	if testing.Short() {
		t.Skip("this test waits for two programs")
	}
	t.Parallel()
	d := newDialogue(t)
	defer d.write()
	d.connect()
	d.open()
	d.showAll()

	d.title("The user of codex wants to know something")
	d.codex.Say(errand)
	asked := d.awaitSent(modelstub.Responses)
	d.codex.Await("I asked claude.")
	d.awaitIdle("codex")
	d.await(modelstub.Messages, func(r modelstub.Request) bool { return mentioned(r, "question", "codex") == asked })
	d.wantStatus(asked, `claude: waiting; offered to claude session`)
	d.showAll()

	d.title("Claude is awake and reads the question")
	close(d.permits[claudeReads])
	d.await(modelstub.Messages, func(r modelstub.Request) bool { return strings.Contains(outputOf(r), "The release waits for it.") })
	d.wantStatus(asked, `claude: noticed by claude session`)
	d.showAll()

	d.title("Claude answers")
	close(d.permits[claudeReplies])
	answered := d.awaitSent(modelstub.Messages)
	d.claude.Await("I told codex that #42 is done.")
	d.wantStatus(asked, `claude: answered; noticed by claude session`)

	d.title("Codex is rung and gets the answer")
	d.await(modelstub.Responses, func(r modelstub.Request) bool { return mentioned(r, "notification", "claude") == answered })
	d.wantStatus(answered, `codex: waiting; offered to codex session`)
	d.showAll()
	close(d.permits[codexAcknowledges])
	d.codex.Await("Claude says that #42 is merged since this morning.")
	d.awaitIdle("codex")
	d.awaitIdle("claude")
	d.wantStatus(answered, `codex: done; noticed by codex session`)
	d.showAll()
	d.run("oacp thread " + asked)
	d.close()
	wantNoErrors(t, d.w)
}
