package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// demoProject returns the files of a project with the agents claude and codex, and the files of others.
func demoProject(others ...map[string]string) map[string]string {
	files := map[string]string{
		"projects/demo/workspace.json":         `{"project_name": "demo", "spec_version": "0.4.0"}` + "\n",
		"projects/demo/agents/claude/inbox/":   "",
		"projects/demo/agents/claude/outbox/":  "",
		"projects/demo/agents/codex/inbox/":    "",
		"projects/demo/agents/codex/outbox/":   "",
		"projects/demo/agents/codex/card.note": "a file that nobody knows\n",
	}
	for _, more := range others {
		maps.Copy(files, more)
	}
	return files
}

// mail returns a message file in the inbox of an agent of the project demo. Lines replace or add
// fields; a line "field:" with nothing behind it removes one.
func mail(agent, name string, lines ...string) map[string]string {
	text := "id: msg-20260313143007-claude-ab12\nfrom: claude\nto: " + agent + "\ntype: question\npriority: P2\n" +
		"created_at_utc: \"2026-03-13T14:30:07Z\"\nsubject: Which port?\nbody: The usual one?\n"
	for _, line := range lines {
		field, _, _ := strings.Cut(line, ":")
		at := strings.Index("\n"+text, "\n"+field+":")
		if at >= 0 {
			text = text[:at] + text[at+strings.IndexByte(text[at:], '\n')+1:]
		}
		if !strings.HasSuffix(line, ":") {
			text += line + "\n"
		}
	}
	return map[string]string{"projects/demo/agents/" + agent + "/inbox/" + name: text}
}

// file returns a message file on its own.
func file(name string, lines ...string) map[string]string {
	for _, content := range mail("codex", name, lines...) {
		return map[string]string{name: content}
	}
	return nil
}

func one(line string) []referenceStep { return []referenceStep{{line: line}} }

const (
	sendLine  = "send demo --from claude --to codex --type question --subject 'Which port?' "
	mailName  = "20260313143007_claude_question_ab12.yaml"
	laterName = "20260313143009_claude_task_request_cd34.yaml"
	later     = "id: msg-20260313143009-claude-cd34"
)

func referenceCases() []referenceCase {
	return append([]referenceCase{
		// send
		{name: "send", files: demoProject(), steps: one(sendLine + "--body x --json")},
		{name: "send prints where the copies are", files: demoProject(), steps: one(sendLine + "--body x"),
			differs: "send prints one line; --json says where the copies are", exits: []int{0}},
		{name: "send with every field", files: demoProject(), steps: one(sendLine + "--body x --json --priority P0 --related-pr 42 --related-packet packet_1 " +
			"--conversation-id conv-20260313-claude-001 --parent-message-id msg-20260313143007-codex-ab12 --context-keys 'two words' --channel review --autonomy-hint auto_proceed")},
		{name: "send a text of several lines", files: demoProject(map[string]string{"body.md": "One line,\nanother: with # signs\n"}), steps: one(sendLine + "--body-file body.md --json")},
		{name: "send from standard input", files: demoProject(), steps: []referenceStep{{line: sendLine + "--body-file - --json", stdin: "piped\n"}}},
		{name: "send from a pipe without a flag", files: demoProject(), steps: []referenceStep{{line: sendLine + "--json", stdin: "piped\n"}}},
		{name: "send quietly", files: demoProject(), steps: one(sendLine + "--body x --quiet")},
		{name: "send to two", files: demoProject(map[string]string{"projects/demo/agents/ann/inbox/": ""}),
			steps: one("send demo --from claude --to codex,ann --type notification --subject Both --body x --json")},
		{name: "send without delivering", files: demoProject(), steps: one(sendLine + "--body x --dry-run --json")},
		{name: "send that expires", files: demoProject(), steps: []referenceStep{
			{line: sendLine + "--body x --json --expires 2h"}, {line: sendLine + "--body x --json --expires '2 h'"},
			{line: sendLine + "--body x --json --expires 1D"}, {line: sendLine + "--body x --json --expires 30m"},
		}},
		{name: "send with a suffix", files: demoProject(), steps: one(sendLine + "--body x --suffix issue.42 --json")},
		{name: "send with a bad suffix", files: demoProject(), steps: []referenceStep{
			{line: sendLine + "--body x --suffix ../etc --json"}, {line: sendLine + "--body x --suffix 'a b' --json"},
		}},
		{name: "send with abbreviated flags", files: demoProject(), steps: []referenceStep{
			{line: "send demo --fr claude --to codex --ty question --subj 'Which port?' --body x --js"}, {line: "send demo --fr claude --to codex --ty question --subj s --bod x"}}},
		{name: "send with empty values", files: demoProject(), steps: []referenceStep{
			{line: sendLine + "--body x --json --channel='' --expires='' --context-keys='' --related-pr='' --suffix=''"},
			{line: sendLine + "--body='' --json"}, {line: sendLine + "--json"},
			{line: "send demo --from claude --to codex --type question --subject='' --body x --json"},
			{line: "send demo --from claude --to codex --type='' --subject s --body x"},
			{line: sendLine + "--body x --priority=''"},
		}},
		{name: "send with missing values", files: demoProject(), steps: []referenceStep{
			{line: "send"}, {line: "send demo --from claude --to codex --type question --body x"},
			{line: "send demo --from claude --to codex --subject s --body x"}, {line: "send demo --from claude --type question --subject s --body x"},
			{line: "send demo --to codex --type question --subject s --body x --json"},
			{line: sendLine + "--body-file absent.txt --json"}, {line: sendLine + "--body x --context-keys-file absent.txt --json"}, {line: sendLine + "--body"},
		}},
		{name: "send with wrong values", files: demoProject(), steps: []referenceStep{
			{line: sendLine + "--body x --priority P9"}, {line: sendLine + "--body x --expires never --json"}, {line: sendLine + "--body x --related-pr forty --json"},
			{line: sendLine + "--body x --conversation-id talk --json"}, {line: sendLine + "--body x --autonomy-hint maybe --json"},
			{line: "send demo --from claude --to codex --type poem --subject s --body x"}, {line: "send demo --from claude --to claude,codex --type question --subject s --body x --json"},
			{line: "send demo --from claude --to .. --type question --subject s --body x --json"}, {line: "send demo --from a/b --to codex --type question --subject s --body x --json"},
			{line: "send demo --from claude --to codex --type handoff --subject s --body x --json"}, {line: sendLine + "--body x --color red"},
		}},
		{name: "send by an agent that the environment names", files: demoProject(), steps: []referenceStep{
			{line: "send demo --to codex --type question --subject s --body x --json", env: []string{"OACP_AGENT=claude"}},
			{line: "send demo --to claude --type question --subject s --body x --json", env: []string{"AGENT_NAME=codex"}},
		}},
		{name: "send by the agent of the runtime", files: demoProject(map[string]string{"projects/demo/agents/claude/agent_card.yaml": "name: claude\nruntime: claude\n"}),
			steps: []referenceStep{{line: "send demo --to codex --type question --subject s --body x --json", env: []string{"CLAUDECODE=1"}}}},
		{name: "send an answer", files: demoProject(mail("codex", mailName, "conversation_id: conv-20260313-claude-7")), steps: one(
			"send demo --from codex --to claude --type notification --subject s --body x --in-reply-to msg-20260313143007-claude-ab12 --json")},
		{name: "send an answer to what is gone", files: demoProject(), steps: one(sendLine + "--body x --in-reply-to msg-20260313143007-codex-ab12 --json"),
			differs: "the conversation follows from the id of the message that is gone, so threads that lost their start do not mix", exits: []int{0}},
		{name: "send an answer to something that is no id", files: demoProject(), steps: one(sendLine + "--body x --in-reply-to hello --json"),
			differs: "what is neither a message nor an id is a mistake", exits: []int{1}},
		{name: "send without delivering, to nobody", files: demoProject(), steps: []referenceStep{
			{line: "send demo --from claude --to codx --type question --subject s --body x --dry-run"}, {line: "send dmeo --from claude --to codex --type question --subject s --body x --dry-run"}},
			differs: "--dry-run refuses what send refuses", exits: []int{1, 1}},
		{name: "send that expires at once", files: demoProject(), steps: one(sendLine + "--body x --expires 0h"), differs: "nobody could read it in time", exits: []int{2}},
		{name: "send to an unknown agent", files: demoProject(), steps: one("send demo --from claude --to codx --type question --subject s --body x --json"),
			differs: "an unknown name is a mistake: nothing is sent without --create", exits: []int{1}},
		{name: "send in an unknown project", files: demoProject(), steps: one("send dmeo --from claude --to codex --type question --subject s --body x --json"),
			differs: "an unknown project is a mistake: nothing is sent without --create", exits: []int{1}},

		// inbox
		{name: "inbox", files: demoProject(mail("codex", mailName), mail("codex", laterName, later, "type: task_request", "subject: Do it")), steps: one("inbox demo --agent codex --json")},
		{name: "inbox of all", files: demoProject(mail("codex", mailName)), steps: one("inbox demo --all --json")},
		{name: "inbox with abbreviated flags", files: demoProject(mail("codex", mailName)), steps: one("inbox demo --ag codex --js")},
		{name: "inbox with a file that is no message", files: demoProject(mail("codex", mailName), map[string]string{
			"projects/demo/agents/codex/inbox/broken.yaml": "subject: [unterminated\n", "projects/demo/agents/codex/inbox/note.txt": "not listed"}),
			steps: one("inbox demo --agent codex --json")},
		{name: "inbox with an incomplete message", files: demoProject(mail("codex", mailName, "id: hello", "subject:")), steps: one("inbox demo --agent codex --json")},
		{name: "inbox with a message without a priority", files: demoProject(mail("codex", mailName, "priority:")), steps: one("inbox demo --agent codex --json"),
			differs: "a message without a priority has P2", exits: []int{0}},
		{name: "inbox of an unknown agent or project", files: demoProject(), steps: []referenceStep{{line: "inbox demo --agent nobody --json"}, {line: "inbox dmeo --all"}}},
		{name: "inbox with a wrong command line", files: demoProject(), steps: []referenceStep{
			{line: "inbox demo --agent codex --all"}, {line: "inbox demo --agent"}, {line: "inbox demo"}, {line: "inbox demo --color"}}},
	}, slices.Concat(watchCases, validateCases(), workspaceCases, signingCases())...)
}

// onlyMail is how a new workspace differs from that of the reference implementation.
const onlyMail = "oacp makes only the files that messages need"

var workspaceCases = []referenceCase{
	{name: "init", steps: one("init demo"), differs: onlyMail, exits: []int{0}},
	{name: "init with agents", steps: one("init demo --agents ann,ben"), differs: onlyMail, exits: []int{0}},
	{name: "init again", files: demoProject(), steps: []referenceStep{{line: "init demo --agents ann"}, {line: "init demo --agents ann"}}, differs: onlyMail, exits: []int{0, 0}},
	{name: "init refused", files: map[string]string{"src/a": "x"}, steps: []referenceStep{
		{line: "init ../x"}, {line: "init .x"}, {line: "init a/b"}, {line: "init demo --agents a/b"}, {line: "init demo --agents .."},
		{line: "init demo --vax"}, {line: "init demo extra"}}},
	{name: "init in another home", steps: one("init demo --agents a --oacp-dir HOME/other"), differs: onlyMail, exits: []int{0}},
	{name: "init without a project", steps: one("init"), differs: "the workspace is made in the current folder", exits: []int{0}},
	{name: "add-agent", files: demoProject(), steps: []referenceStep{
		{line: "add-agent demo ann"}, {line: "add-agent demo ben --runtime claude"}, {line: "add-agent demo ben --runtime codex"}}, differs: onlyMail, exits: []int{0, 0, 0}},
	{name: "add-agent refused", files: demoProject(), steps: []referenceStep{
		{line: "add-agent dmeo ann"}, {line: "add-agent ../demo ann"}, {line: "add-agent demo a/b"}, {line: "add-agent demo .."}, {line: "add-agent demo .x"},
		{line: "add-agent demo " + strings.Repeat("x", 65)}, {line: "add-agent demo ann --runtime vim"}, {line: "add-agent demo ann --runtime unknown"}, {line: "add-agent"}}},
	{name: "add-agent without a project", files: demoProject(), steps: one("add-agent ann"), differs: "without a project it looks for the workspace around the folder", exits: []int{1}},
	{name: "send to an agent that is offline", files: demoProject(map[string]string{"projects/demo/agents/codex/status.yaml": "runtime: codex\nstatus: Offline\n"}),
		steps: []referenceStep{{line: sendLine + "--body x --json"}, {line: sendLine + "--body x --json --priority P0"}}},
	{name: "a project without agents", files: map[string]string{"projects/demo/workspace.json": "{}\n"}, steps: []referenceStep{{line: "inbox demo --all"}, {line: "doctor --project demo"}},
		differs: "a project without agents is a project with nothing in it", exits: []int{0, 0}},
	{name: "doctor in a folder that is no project", files: map[string]string{"projects/demo/": ""}, steps: one("doctor --project demo --json"),
		differs: "a folder without agents and workspace.json is not a project", exits: []int{1}},
	{name: "doctor with a file that is no message", files: demoProject(map[string]string{"projects/demo/agents/codex/inbox/broken.yaml": "subject: [unterminated\n"}),
		steps: one("doctor --project demo"), differs: "doctor reads the messages", exits: []int{1}},
	{name: "doctor with an empty config.yaml", files: demoProject(map[string]string{"projects/demo/agents/codex/config.yaml": ""}), steps: one("doctor --project demo"),
		differs: "every setting has a default", exits: []int{0}},
	{name: "doctor refused", steps: []referenceStep{{line: "doctor --vax"}, {line: "doctor -o"}}},
	{name: "doctor does not find the project", steps: one("doctor --project demo --json"),
		differs: "Environment lists what oacp needs, which is neither Python nor linters", exits: []int{1}},
	{name: "a home with a tilde", files: map[string]string{"hub/projects/demo/agents/codex/inbox/": ""}, steps: one("inbox demo --agent codex --oacp-dir ~/hub --json")},
	{name: "commands that only the reference has", steps: []referenceStep{{line: "memory --help"}, {line: "envelope --help"}, {line: "agent --help"},
		{line: "org-memory --help"}, {line: "write-event --help"}, {line: "autonomy-outcome --help"}},
		differs: "they are not part of a mail program", exits: []int{2, 2, 2, 2, 2, 2}},
	{name: "commands", steps: []referenceStep{{line: "fly"}, {line: ""}, {line: "help"}, {line: "help send"}, {line: "send --help"}, {line: "--version"}}},
}

const watchLine = "watch --agent codex --project demo --json "

var watchCases = []referenceCase{
	{name: "watch for the first time", files: demoProject(mail("codex", mailName)), steps: []referenceStep{{line: watchLine}, {line: watchLine}},
		differs: "what is pending is printed, whenever it came", exits: []int{0, 0}},
	{name: "watch from now on", files: demoProject(mail("codex", mailName)), steps: []referenceStep{{line: watchLine + "--since now"}, {line: watchLine}}},
	{name: "watch from the beginning", files: demoProject(mail("codex", mailName)), steps: []referenceStep{{line: watchLine + "--since epoch"}, {line: watchLine}}},
	{name: "watch prints lines", files: demoProject(mail("codex", mailName)), steps: one("watch --agent codex --project demo --since epoch"),
		differs: "a line has the id and the sender, too", exits: []int{0}},
	{name: "watch prints what arrived", files: demoProject(), steps: []referenceStep{{line: watchLine}, {line: sendLine + "--body x --json"}, {line: watchLine}, {line: watchLine}}},
	{name: "watch with a record of its own", files: demoProject(mail("codex", mailName)), steps: []referenceStep{
		{line: watchLine + "--since epoch"}, {line: watchLine + "--since epoch --state-id other"}, {line: watchLine + "--state-id other"}}},
	{name: "watch what leaves", files: demoProject(mail("codex", mailName)), steps: []referenceStep{
		{line: watchLine + "--since epoch --show-archived"}, {line: watchLine + "--show-archived", remove: "projects/demo/agents/codex/inbox/*.yaml"}}},
	{name: "watch does not say what leaves", files: demoProject(mail("codex", mailName)), steps: []referenceStep{
		{line: watchLine + "--since epoch"}, {line: watchLine, remove: "projects/demo/agents/codex/inbox/*.yaml"}}},
	{name: "watch all projects", files: demoProject(mail("codex", mailName), map[string]string{"projects/other/agents/ann/inbox/": ""}),
		steps: one("watch --agent codex --all-projects --since epoch --json")},
	{name: "watch with a project that is missing", files: demoProject(mail("codex", mailName)), steps: one(watchLine + "--project missing --since epoch")},
	{name: "watch nothing", files: demoProject(), steps: []referenceStep{
		{line: "watch --agent codex --project missing --json"}, {line: "watch --agent nobody --project demo --json"}, {line: "watch --agent nobody --all-projects --json"}}},
	{name: "watch an incomplete message", files: demoProject(mail("codex", mailName, "id: hello", "subject:")), steps: one(watchLine + "--since epoch")},
	{name: "watch what leaves, though it is not valid", files: demoProject(mail("codex", mailName, "id: hello")), steps: []referenceStep{
		{line: watchLine + "--since epoch --show-archived"}, {line: watchLine}, {line: watchLine + "--show-archived", remove: "projects/demo/agents/codex/inbox/*.yaml"}}},
	{name: "watch continues the other's record of a message that is not valid", files: demoProject(mail("codex", mailName, "id: hello"), map[string]string{
		"projects/demo/state/watch/codex.json": `{"version": 1, "project": "demo", "agent": "codex", "messages": {"` + mailName + `": {"file": "` + mailName +
			`", "from": "claude", "type": "question", "subject": "Which port?", "priority": "P2"}}}`}), steps: one(watchLine + "--since epoch")},
	{name: "watch with a file that is no message", files: demoProject(mail("codex", mailName), map[string]string{
		"projects/demo/agents/codex/inbox/broken.yaml": "subject: [unterminated\n"}), steps: one(watchLine + "--since epoch")},
	{name: "watch the same bad file again", files: demoProject(map[string]string{"projects/demo/agents/codex/inbox/broken.yaml": "subject: [unterminated\n"}),
		steps:   []referenceStep{{line: watchLine}, {line: watchLine}},
		differs: "a bad file is an error once, not at every run for ever", exits: []int{1, 0}},
	{name: "watch with a record that cannot be read", files: demoProject(mail("codex", mailName), map[string]string{"projects/demo/state/watch/codex.json": "[\n"}),
		steps:   []referenceStep{{line: watchLine}, {line: watchLine}},
		differs: "it is an error, and the record stays", exits: []int{1, 1}},
	{name: "watch with a wrong command line", files: demoProject(), steps: []referenceStep{
		{line: watchLine + "--since yesterday"}, {line: watchLine + "--since=''"}, {line: watchLine + "--state-id a/b"}, {line: watchLine + "--state-id=''"},
		{line: "watch --project demo"}, {line: "watch --agent codex --project demo --all-projects"}, {line: watchLine + "--color"}}},
	{name: "watch continues the other's record", files: demoProject(mail("codex", mailName), map[string]string{
		"projects/demo/state/watch/codex.json": `{"version": 1, "project": "demo", "agent": "codex", "messages": {"` + mailName + `": {"file": "` + mailName +
			`", "from": "claude", "type": "question", "subject": "Which port?", "priority": "P2"}}}`}), steps: one(watchLine + "--since epoch")},
}

func validateCases() []referenceCase {
	valid := func(name string, lines ...string) referenceCase {
		return referenceCase{name: "validate " + name, files: file("m.yaml", lines...), steps: one("validate m.yaml --quiet")}
	}
	handoff := "body: |\n  source_agent: claude\n  target_agent: codex\n  intent: review\n  artifacts_to_review: [a.go]\n  definition_of_done: [green]\n" +
		"  context_bundle:\n    files_touched: [a.go]\n    decisions_made: [none]\n    blockers_hit: [none]\n    suggested_next_steps: [read]"
	cases := []referenceCase{
		{name: "validate says that a message is fine", files: file("m.yaml"), steps: []referenceStep{{line: "validate HOME/m.yaml"}, {line: "validate m.yaml --quiet"}}},
		{name: "validate what is missing", files: map[string]string{"empty.yaml": ""}, steps: []referenceStep{{line: "validate absent.yaml"}, {line: "validate"}, {line: "validate empty.yaml"}}},
		valid("a body that is not one line", "body: |\n  one\n  two"), valid("a recipient list", "to: [codex, ann]"), valid("an expiry", "expires_at: 2026-03-14T00:00:00Z"),
		valid("a channel", "channel: my-channel_01"), valid("a handoff", "type: handoff", handoff), valid("numbers without quotes", "related_pr: 42"),
		valid("telemetry", "type: review_lgtm", "turns: 3", "input_tokens: 10", "wall_time_s: 2.5", "est_cost_usd: .5", "model: m"),
	}
	for _, other := range []struct {
		exit      int
		name, why string
		lines     []string
	}{
		{0, "a channel with a space", "a channel is free text: other characters are a warning", []string{"channel: my channel"}},
		{0, "a structured body", "a body may be a mapping", []string{"body: {answer: 42}"}},
		{0, "an empty model", "an empty field is absent", []string{"type: review_lgtm", "model: ''"}},
		{1, "an id of another form", "an id says when and by whom the message was made", []string{"id: hello"}},
		{1, "a message to oneself", "a message goes to others", []string{"to: claude"}},
		{1, "one recipient twice", "a recipient gets one copy", []string{"to: [codex, codex]"}},
		{1, "a key twice", "two readers could see two messages", []string{"channel: one\nchannel: two"}},
		{1, "an anchor", "a small file could grow without bound", []string{"channel: &name one"}},
	} {
		c := valid(other.name, other.lines...)
		c.differs, c.exits = other.why, []int{other.exit}
		cases = append(cases, c)
	}
	for i, bad := range [][]string{
		{"id:"}, {"from: _bot"}, {"from: a/b"}, {"to: [claude, codex]"}, {"to: []"}, {"to: [a,b,c,d,e,f,g,h,i,j,k]"}, {"type: poem"}, {"priority: P9"}, {"priority:"},
		{"created_at_utc: yesterday"}, {"created_at_utc: 2026-02-31T00:00:00Z"}, {"expires_at: 2026-03-14 00:00:00"}, {"subject: " + strings.Repeat("x", 201)},
		{"body: " + strings.Repeat("x", 20001)}, {"related_pr: forty"}, {"conversation_id: talk"}, {"autonomy_hint: maybe"}, {"autonomy_hint: {mode: auto_proceed}"},
		{"model: gpt"}, {"type: review_lgtm", "turns: -1"}, {"type: review_lgtm", "turns: 1.5"}, {"type: review_lgtm", "wall_time_s: NaN"}, {"colour: red"},
		{"type: handoff"}, {"type: handoff_complete"}, {"type: handoff", "to: [codex, ann]", handoff}, {"auth: abc"}, {"channel: " + strings.Repeat("x", 65)}, {"subject: [a"},
		{"context_keys: [a]"}, {"type: handoff", strings.Replace(handoff, "source_agent: claude", "source_agent: _x", 1)},
	} {
		c := valid("", bad...)
		c.name = fmt.Sprintf("validate refuses %d: %.30s", i+1, strings.Join(bad, ", "))
		cases = append(cases, c)
	}
	return cases
}
