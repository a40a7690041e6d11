package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// marker is in every field of every message that an agent must not see. It is a valid name, part of an id, and
// text.
const marker = "Xyzzy"

// planted is the id of the message that the commands of enforceLines ask for.
const planted = "msg-20260313T1431Z-claude-zzz1"

// plantedName is the name of its file.
const plantedName = "20260313T1431Z_claude_task_request.yaml"

// plantedMessage returns a message with the marker in every field that may have it.
func plantedMessage(id schema.ID, from schema.AgentName, to ...schema.AgentName) string {
	var names []string
	for _, name := range to {
		names = append(names, string(name))
	}
	return fmt.Sprintf(`id: %s
from: %s
to: [%s]
type: task_request
priority: P0
created_at_utc: "2026-03-13T14:31:00Z"
channel: %[4]s
related_packet: %[4]s
conversation_id: conv-20260313-%[4]s-000001
parent_message_id: msg-20260313T1430Z-%[4]s-aaaa
context_keys: %[4]s
subject: %[4]s
body: |
  %[4]s
`, id, from, strings.Join(names, ", "), marker)
}

// enforceScene is a project in which codex reads only verified messages.
type enforceScene struct {
	home, dir string
	files     map[string]string
}

// newEnforceScene makes a project in which codex reads only verified messages, with one that is and many that
// are not: in each box of codex and, if outbox is set, in that of their sender.
func newEnforceScene(t *testing.T, outbox bool) *enforceScene {
	t.Helper()
	s := &enforceScene{home: t.TempDir(), files: make(map[string]string)}
	s.dir = filepath.Join(s.home, "projects", "p")
	s.must(t, "init", "p", "--agents", "claude,codex")
	if out, err := exec.Command("git", "init", "-q", s.dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	s.write(t, "agents/codex/config.yaml", "signing:\n  verify_mode: enforce\n")
	var keys []*signing.Key
	for _, agent := range []schema.AgentName{"claude", "claude", "claude"} { // trusted, revoked, unknown
		k, err := signing.NewStore(s.home).Generate(agent, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	s.must(t, "key", "gen", "--agent", "codex")
	for _, k := range keys[:2] {
		s.must(t, "trust", "import", k.StubPath(), "--project", "p", "--agent", "codex")
	}
	s.must(t, "trust", "revoke", "--project", "p", "--agent", "codex", "--", string(keys[1].ID))
	sign := func(text string, k *signing.Key) string {
		signed, err := signing.Sign([]byte(text), k)
		if err != nil {
			t.Fatal(err)
		}
		return string(signed)
	}
	good := strings.NewReplacer(marker, "plugh", "zzz1", "good").Replace(plantedMessage(planted, "claude", "codex"))
	for _, box := range []string{"codex/inbox", "claude/outbox"} {
		s.files["agents/"+box+"/20260313T1431Z_claude_task_request_good.yaml"] = sign(good, keys[0])
	}
	plain := plantedMessage(planted, "claude", "codex")
	marked := plantedMessage("msg-20260313T1431Z-"+marker+"-"+marker, marker, "codex")
	for n, text := range []string{
		plain, marked, sign(marked, keys[2]), sign(plain, keys[1]), sign(good, keys[0])[:len(good)] + strings.TrimPrefix(sign(plain, keys[0]), plain),
		strings.Replace(sign(good, keys[0]), "plugh", marker, 1), sign(plantedMessage(planted, "claude", "gemini"), keys[0]),
		marker + ": [", strings.TrimSuffix(sign(plain, keys[0]), "\n"),
	} {
		name := plantedName
		if n > 0 {
			name = fmt.Sprintf("20260313T1431Z_claude_task_request_bad%d.yaml", n)
		}
		if n != 4 { // that one is good, with the trailer of another message
			for _, box := range []string{"inbox", "inbox/archive", "archive", "dead_letter"} {
				s.files["agents/codex/"+box+"/"+name] = text
			}
		}
	}
	// Its own outbox proves nothing either: what codex seems to have sent, asked and answered, and what lies there of others.
	answer := strings.Replace(plantedMessage("msg-20260313T1432Z-codex-zzz2", "codex", "claude"), "type: task_request", "type: notification", 1)
	for n, text := range []string{
		answer, strings.Replace(answer, "parent_message_id: msg-20260313T1430Z-"+marker+"-aaaa", "parent_message_id: "+strings.Replace(planted, "zzz1", "good", 1), 1),
		strings.Replace(answer, "type: notification", "type: question", 1), sign(answer, keys[0]), plain, marker + ": [",
	} {
		s.files[fmt.Sprintf("agents/codex/outbox/20260313T1432Z_codex_notification_own%d.yaml", n)] = text
	}
	if outbox {
		s.files["agents/claude/outbox/"+plantedName] = plain
	}
	s.restore(t)
	return s
}

func (s *enforceScene) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// restore puts back the messages, and removes what commands have written.
func (s *enforceScene) restore(t *testing.T) {
	t.Helper()
	for _, path := range []string{
		"p/state/turns", "p/state/watch", "p/state/live", "p/state/mirror", "p/LOG", "p/agents/codex/outbox", "../handled",
	} {
		if err := os.RemoveAll(filepath.Join(s.home, "projects", path)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range s.files {
		s.write(t, name, text)
	}
}

// run runs a command line in the project and returns all its output.
func (s *enforceScene) run(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a command that waits has nothing to show
	defer cancel()
	c := exec.CommandContext(ctx, "oacp", args...)
	if c.Dir = s.dir; args[0] == "init" {
		c.Dir = s.home
	}
	c.Env = append(os.Environ(), "OACP_HOME="+s.home, "HOME="+s.home, "OACP_AGENT=codex", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	return string(out), err
}

func (s *enforceScene) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.run(t, "", args...)
	if err != nil {
		t.Fatalf("oacp %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// listTools returns the names of the tools that oacp mcp offers for a workspace.
func (s *enforceScene) listTools(t *testing.T) (names []string) {
	t.Helper()
	hello, _, _ := strings.Cut(enforceInput["mcp"], `{"jsonrpc":"2.0","id":"`)
	out, err := s.run(t, hello+`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n", "mcp", "--agent", "codex")
	if err != nil {
		t.Fatalf("oacp mcp: %v\n%s", err, out)
	}
	for _, found := range regexp.MustCompile(`"name":"([a-z]+_[a-z_]+)"`).FindAllStringSubmatch(out, -1) {
		names = append(names, found[1])
	}
	return names
}

// written returns what the last command wrote to a bridge log, and sent.
func (s *enforceScene) written(t *testing.T) (text string) {
	t.Helper()
	sent, err := filepath.Glob(filepath.Join(s.dir, "agents/codex/outbox/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(sent, filepath.Join(s.dir, "LOG")) {
		if name, err := filepath.Rel(s.dir, path); err == nil && s.files[filepath.ToSlash(name)] != "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		text += string(data)
	}
	return text
}

// enforceLines are the command lines of each command that may read a mailbox. Those that must show the
// verified message are marked with a plus sign.
var enforceLines = map[string][]string{
	"send": {"send --to claude --type question --subject s --body b --in-reply-to " + planted,
		"send --to claude --type question --subject s --body b --conversation-id " + planted + " --dry-run",
		"send --to claude --type question --subject s --body b --wait --timeout 1s"},
	"next":       {"+next", "+next --thread", "+next --all --json", "next --from claude --type question --timeout 1s"},
	"read":       {"+read --all", "+read --all --json", "read " + planted, "read " + plantedName, "read " + plantedName + " --raw", "+read good", "read zzz2", "read " + plantedName + " --unverified"},
	"reply":      {"reply " + planted + " --body b", "reply " + planted + " --body b --from codex", "reply zzz1 --body b"},
	"decide":     {"decide", "decide --agent codex"},
	"ack":        {"ack " + planted, "ack --all --type task_request", "ack " + plantedName},
	"recall":     {"recall " + planted, "recall good"},
	"return":     {"return " + planted, "return good"},
	"stop":       {"stop " + planted, "stop good"},
	"working":    {"working " + planted, "working zzz1 x", "working --done"},
	"owed":       {"+owed", "owed --json"},
	"inbox":      {"+inbox", "+inbox --json", "+inbox --agent codex", "inbox --agent claude"},
	"thread":     {"thread " + planted, "+thread good", "+thread good --json"},
	"status":     {"status", "status --json", "status " + planted},
	"run":        {"+run --once --show-output -- sh -c 'cat; env'", "+run --once --json --show-output -- cat", "run --once --driver echo --reply"},
	"live":       {"live", "live --json"},
	"hook":       {"+hook claude", "+hook codex"},
	"list":       {"+list", "+list --json", "list --text " + marker, "list --box outbox", "+list --box inbox", "list --box archive --json", "list --box dead_letter"},
	"restore":    {"restore " + planted, "restore " + plantedName},
	"watch":      {"+watch", "+watch --json --state-id two", "watch --show-archived"},
	"commit":     {"commit", "commit --dry-run"},
	"doctor":     {"doctor", "doctor --json", "doctor --fix"},
	"prune":      {"prune --dry-run --older-than 0s"},
	"trust":      {"trust list"},
	"verify":     {"verify agents/codex/inbox/" + plantedName},
	"mirror":     {"+mirror --bridge LOG"},
	"mcp":        {"+mcp --agent codex"},
	"dashboard":  {"dashboard --once", "+dashboard --once --json"},
	"completion": {"__complete -- read ", "__complete -- restore ", "__complete -- reply "},
}

// readsNoMailbox are the other commands, with the reason why they show no message of an inbox.
var readsNoMailbox = map[string]string{
	"allow": "it shows settings, escaped, to a person in a terminal",
	"pair":  "its runs are in bridge logs", "bridge": "a log is no mailbox; see mirror", "convert": "it reads the file that it is given",
	"validate": "it judges the file that it is given, for its writer", "sync": "it prints no field of a message",
	"schema": "", "init": "", "add-agent": "", "remove-agent": "it looks only at whether there is a message", "setup": "", "key": "", "ash": "", "demo": "it has a scene of its own",
	"help": "", "version": "", "agents": "it lists programs",
}

// enforceInput is what commands read from standard input.
var enforceInput = map[string]string{
	"hook": `{"hook_event_name": "SessionStart", "session_id": "5e6f", "source": "startup"}` + "\n",
	"mcp": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
` + toolCall("list_inbox", "") + toolCall("next_message", `"wait_seconds": 0`) + toolCall("read_message", `"message_id": "`+planted+`"`) +
		toolCall("show_thread", `"message_id": "`+planted+`"`) + toolCall("list_owed", "") +
		toolCall("reply_message", `"message_id": "`+planted+`", "body": "b"`) +
		toolCall("report_working", `"message_id": "`+planted+`"`) + toolCall("acknowledge_message", `"message_id": "`+planted+`"`) +
		toolCall("send_message", `"to": "claude", "type": "question", "subject": "s", "body": "b", "in_reply_to": "`+planted+`"`),
}

func toolCall(tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"%[1]s","arguments":{%s}}}`+"\n", tool, arguments)
}

// TestEnforce runs every command that reads mailboxes in a workspace with messages that are not verified. None
// of them shows a field of one, nor does a turn get one. In a second scene the sender's outbox has the message,
// too, and in a third the list of signed files says that somebody has changed the settings to let all pass.
func TestEnforce(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scene needs a shell")
	}
	for _, command := range program().Commands {
		_, other := readsNoMailbox[command.Name]
		if enforceLines[command.Name] == nil && !other {
			t.Errorf("oacp %s is new: say here which command lines read a mailbox, or why none does", command.Name)
		}
	}
	scenes := map[string]*enforceScene{"inbox": newEnforceScene(t, false), "outbox": newEnforceScene(t, true), "policy": newEnforceScene(t, true)}
	policy := scenes["policy"]
	mailboxtest.SignPolicy(t, mailboxtest.Open(t, policy.dir), policy.home, "codex")
	policy.write(t, "agents/codex/config.yaml", "signing:\n  verify_mode: off\n")
	listed := policy.listTools(t)
	for _, tool := range listed {
		if !strings.Contains(enforceInput["mcp"], `"name":"`+tool+`"`) {
			t.Errorf("the tool %s is new: call it in enforceInput", tool)
		}
	}
	if len(listed) < 5 {
		t.Errorf("found only the tools %v", listed)
	}
	// In a fourth scene, other files than messages have text for codex, too.
	others := newEnforceScene(t, false)
	scenes["other files"] = others
	good := strings.Replace(planted, "zzz1", "good", 1)
	others.must(t, "trust", "sign-policy", "--agent", "codex")
	dead := "agents/codex/dead_letter/20260313T1431Z_claude_task_request_good.yaml"
	others.files[dead] = others.files["agents/codex/inbox/20260313T1431Z_claude_task_request_good.yaml"]
	for name, text := range map[string]string{
		dead + ".reason.json": fmt.Sprintf(`{"reason": %q, "output": %[1]q, "recalled_by": "x %[1]s"}`, marker),
		"state/turns/codex.jsonl": fmt.Sprintf(`{"at":"2026-03-13T14:31:00Z","fact":"failed","id":%q,"fingerprint":"0","from":"claude","type":"task_request","subject":%q,"reason":%[2]q,"output":%[2]q,"file":"x.yaml"}
{"at":"2026-03-13T14:31:00Z","fact":"held","id":%[1]q,"fingerprint":"0","subject":%[2]q,"reason":%[2]q}
{"at":"2026-03-13T14:31:00Z","fact":"working","id":%[1]q,"fingerprint":"0","text":%[2]q}`, good, marker) + "\n",
		"agents/claude/status.yaml":     "runtime: claude\nstatus: busy\ncurrent_task: " + marker + "\nupdated_at: \"2026-03-13T14:31:00Z\"\n",
		"agents/claude/agent_card.yaml": "name: " + marker + "\ndescription: " + marker + "\n",
		"agents/claude/config.yaml":     "notify: [sh, -c, 'echo " + marker + "']\n",
	} {
		others.files[name] = text
	}
	for name, s := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for command, lines := range enforceLines {
				for _, line := range lines {
					s.restore(t)
					line, mustShow := strings.CutPrefix(line, "+")
					args := strings.Split(line, " ")
					if at := strings.Index(line, "sh -c "); at >= 0 {
						args = append(strings.Fields(line[:at]), "sh", "-c", strings.Trim(line[at+len("sh -c "):], "'"))
					}
					out, _ := s.run(t, enforceInput[command], args...)
					out += s.written(t)
					switch {
					case strings.Contains(out, marker):
						t.Errorf("oacp %s shows what is not verified:\n%s", line, out)
					case name == "policy" && command == "run":
						if !strings.Contains(out, "config.yaml is not authorized") {
							t.Errorf("oacp %s works by settings without a signature:\n%s", line, out)
						}
					case mustShow && !strings.Contains(out, "plugh"):
						t.Errorf("oacp %s does not show the verified message:\n%s", line, out)
					}
				}
			}
			log, err := exec.Command("git", "-C", s.dir, "log", "--format=%B").CombinedOutput()
			if err != nil || !strings.Contains(string(log), "p") || name == "inbox" && strings.Contains(string(log), marker) {
				t.Errorf("the commits are %s (%v)", log, err)
			}
		})
	}
}
