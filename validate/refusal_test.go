package validate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

// someAuth is a signature of the right form. It belongs to no message here, which is for receivers to
// find out.
const someAuth = "eyJzaWduYXR1cmVzIjpbeyJwcm90ZWN0ZWQiOiJleUpoYkdjaU9pSkZaRVJUUVNJc0ltTnlhWFFpT2xzaWIyRmpjQ0pkTENKcmFXUWlPaUp3U0hnNWVrUnRiVWh5UXpWV1FXeFhaa3c0WlVaTVMzQmxSbDlRYjFWeE5WSkhkVVo1U0RnMk1HTlpJaXdpYjJGamNDSTZleUpoWjJWdWRDSTZJblZ5YmpwdllXTndPbUZuWlc1ME9qQmhOR1UzWVRZeUxUWm1OR0l0TkdNeFpTMDVaRGRqTFRWa01XTXdZVGxpT0dVd01UcGpiR0YxWkdVaUxDSmtiMjFoYVc0aU9pSjFjbTQ2YjJGamNEcHRaWE56WVdkbE9uWXhJaXdpYVc1emRHRnVZMlVpT2lKMWNtNDZkWFZwWkRvM1lqRmtNbU16WlMwd01EQXdMVFF3TURBdE9EQXdNQzB3TURBd01EQXdNREF3TURFaUxDSnpZMmhsYldVaU9pSnlZWGN0Y0hKbFptbDRMWFl4SW4wc0luUjVjQ0k2SW05aFkzQXRiV1Z6YzJGblpTdDVZVzFzSW4wIiwic2lnbmF0dXJlIjoiX1pselRLLVYzaGxYeTk4ZzRsM0pvQUU3VElJZmxoZEo5S0U2cF8yakpPY3k2aXFyNmh6S2k1bFFYeWtNbXlUT19MaWM1V0EtSlpfYVJIZk9ZSmItQUEifV19"

// with returns a valid message with lines replaced or, for new fields, added before the subject. An
// empty replacement removes the line.
func with(changes ...string) string {
	lines := []string{
		"id: msg-20260313T1430Z-claude-a8f3", "from: claude", "to: codex", "type: task_request", "priority: P2",
		"created_at_utc: 2026-03-13T14:30:00Z", "subject: Hello", "body: World",
	}
	for _, change := range changes {
		field, _, _ := strings.Cut(change, ":")
		at := len(lines) - 2
		for i, line := range lines {
			if strings.HasPrefix(line, field+":") {
				at = i
				lines = append(lines[:i], lines[i+1:]...)
				break
			}
		}
		if change != field+":-" {
			lines = append(lines[:at], append([]string{change}, lines[at:]...)...)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// handoff returns a valid handoff with lines of its body replaced.
func handoff(replacements ...string) string {
	body := `body:
  source_agent: claude
  target_agent: codex
  intent: finish
  artifacts_to_review: [a]
  definition_of_done: [b]
  context_bundle:
    files_touched: [c]
    decisions_made: [d]
    blockers_hit: [e]
    suggested_next_steps: [f]`
	return with("type: handoff", strings.NewReplacer(replacements...).Replace(body))
}

// refusals has a text for each thing that a message must not be or hold, and the findings on it:
// position, severity and rule, and the field, if there is one.
var refusals = []struct {
	name string
	text string
	want string
}{
	{"valid", with(), ""},
	{"valid handoff", handoff(), ""},

	{"Latin-1", with("subject: caf\xe9"), "7:13 error encoding"},
	{"overlong UTF-8", with("subject: \xc0\xaf"), "7:10 error encoding"},
	{"surrogate in UTF-8", with("subject: \xed\xa0\x80"), "7:10 error encoding"},
	{"UTF-16 with a mark", "\xff\xfei\x00d\x00", "1:1 error encoding"},
	{"UTF-16 without a mark", "i\x00d\x00:\x00 \x00x\x00", "1:2 error encoding"},
	{"NUL", with("subject: a\x00b"), "7:11 error control-character"},
	{"NUL alone", "\x00", "1:1 error control-character"},
	{"escape character", with("subject: é\x1b[31m"), "7:11 error control-character"},
	{"delete", with("subject: \x7f"), "7:10 error control-character"},
	{"C1 control", with("subject: \u0090"), "7:10 error control-character"},
	{"noncharacter", with("subject: \uffff"), "7:10 error control-character"},
	{"control behind a byte order mark", "\ufeffid: \x01", "1:5 error control-character"},
	{"escaped NUL is text", with(`subject: "a\0b"`), ""},
	{"byte order mark", "\ufeff" + with(), ""},
	{"byte order mark inside", with("subject: a\ufeffb"), "7:10 warning invisible-text subject"},
	{"two byte order marks", "\ufeff\ufeff" + with("subject:-"), "1:1 error missing-field subject"},
	{"CRLF", strings.ReplaceAll(with(), "\n", "\r\n"), ""},
	{"old Mac line ends", strings.ReplaceAll(with("priority: p"), "\n", "\r"), "5:11 error priority priority"},
	{"too large", with("subject: Hello #" + strings.Repeat("x", schema.MaxFileSize)), "1:1 error file-size"},
	{"as large as may be", with("subject: Hello #" + strings.Repeat("x", schema.MaxFileSize-len(with())-2)), ""},

	{"nothing", "", "1:1 error file-empty"},
	{"white space", " \n\n", "1:1 error file-empty"},
	{"comments", "# a\n# b\n", "1:1 error file-empty"},
	{"document marker", "---\n", "1:1 error file-empty"},
	{"null", "~\n", "1:1 error yaml-top-level"},
	{"text", "hello\n", "1:1 error yaml-top-level"},
	{"list", "\n- a\n", "2:1 error yaml-top-level"},
	{"two documents", with() + "---\nid: x\n", "9:1 error yaml-documents"},
	{"two documents, the second empty", with() + "---\n", "9:1 error yaml-documents"},
	{"end marker", with() + "...\n# bye\n", ""},
	{"document marker first", "# hi\n---\n" + with(), ""},
	{"YAML 1.1", "%YAML 1.1\n---\n" + with(), ""},
	{"YAML 1.2", "%YAML 1.2 # new\n---\n" + with("priority: p2"), "7:11 error priority priority"},
	{"YAML 1.10", "# hi\n%YAML 1.10\n---\n" + with(), ""},
	{"YAML 2.0", "%YAML 2.0\n---\n" + with(), "1:7 error yaml-version"},
	{"YAML without a version", "%YAML x\n---\n" + with(), "1:7 error yaml-version"},
	{"repeated key", with() + "id: x\n", "9:1 error yaml-duplicate-key id"},
	{"repeated key in quotes", with() + "\"id\": x\n", "9:1 error yaml-duplicate-key id"},
	{"repeated key in the body", with("body: {a: 1, b: 2, a: 3}"), "8:20 error yaml-duplicate-key body.a"},
	{"list as key", with("body:\n  ? [a]\n  : b\n  c: d"), "9:5 error yaml-complex-key body"},
	{"anchor", with("subject: &a Hello"), "7:10 error yaml-anchor subject"},
	{"anchor on a key", with("body: {&a b: c}"), "8:8 error yaml-anchor body.b"},
	{"anchor on the whole", "--- &a\n" + with(), "1:5 error yaml-anchor"},
	{"alias", with("channel: &a x", "subject: *a"), "7:10 error yaml-anchor channel; 8:10 error yaml-alias subject"},
	{"alias of nothing", with("subject: *a"), "7:10 error yaml-alias"},
	{"alias as key", with("channel: &a x", "body: {*a : b}"), "7:10 error yaml-anchor channel; 9:8 error yaml-alias body"},
	{"merge key", with() + "<<: {channel: x}\n", "9:1 error yaml-merge-key"},
	{"merge key in the body", with("body: {<<: {a: b}, c: d}"), "8:8 error yaml-merge-key body"},
	{"merge key in quotes is text", with("body: {\"<<\": {a: b}}"), ""},
	{"core tags", with("subject: !!str Hello", "body: !!map {a: !!int 1, b: !!seq [!!float 1.5, !!bool yes, !!null ~]}"), ""},
	{"binary tag", with("subject: !!binary SGVsbG8="), "7:10 error yaml-tag subject"},
	{"local tag", with("body: !mine {a: b}"), "8:7 error yaml-tag body"},
	{"set tag", with("body: !!set {a, b}"), "8:7 error yaml-tag body"},
	{"timestamp tag", with("created_at_utc: !!timestamp 2026-03-13T14:30:00Z"), "6:17 error yaml-tag created_at_utc"},
	{"tag of a declared handle", "%TAG !e! tag:example.com,2026:\n---\n" + with("subject: !e!x Hello"), "9:10 error yaml-tag subject"},
	{"nesting as deep as may be", with("body: {a: " + nested(998) + "}"), ""},
	{"nesting too deep", with("body: {a: " + nested(999) + "}"), "8:1009 error yaml-depth body.a" + strings.Repeat("[0]", 52) + "…"},
	{"nesting far too deep", with("body: " + nested(20_000)), "8:10007 error yaml-depth"},
	{"nesting in dashes", strings.Repeat("- ", 20_000) + "\n", "1:20001 error yaml-depth"},
	{"many problems", with() + manyFields(150), "9:1 error unknown-field a000"},

	{"tab as indent", "to:\n\t- a\n", "2:1 error yaml-syntax"},
	{"unclosed quote", "id: a\nsubject: \"Hello\nbody: World\n", "2:10 error yaml-syntax"},
	{"unclosed bracket", "id: a\nto: [codex, gemini\nsubject: Hello\n", "2:5 error yaml-syntax"},
	{"colon in a plain text", "id: a\nsubject: Re: hello\n", "2:12 error yaml-syntax"},
	{"plain text that begins with @", "id: a\nto: @codex\n", "2:5 error yaml-syntax"},
	{"block without indent", "id: a\nbody: |\nHello\nthere\n", "3:1 error yaml-syntax"},
	{"line without colon", "id: a\nHello\nto: b\n", "2:1 error yaml-syntax"},
	{"uneven indent", "body:\n  a: b\n c: d\n", "3:2 error yaml-syntax"},
	{"list item among fields", "id: a\n- b\n", "2:1 error yaml-syntax"},
	{"quote in quotes", "id: a\nsubject: 'it's'\n", "2:14 error yaml-syntax"},
	{"unknown escape", "subject: \"C:\\work\"\n", "1:13 error yaml-syntax"},
	{"half a character in an escape", "subject: \"\\ud83d\\ude00\"\n", "1:16 error yaml-syntax"},
	{"text behind the mapping", "{id: a}\nto: b\n", "2:1 error yaml-syntax"},

	{"unknown field", with("prioritty: P1"), "7:1 error unknown-field prioritty"},
	{"no fields", "{}", strings.ReplaceAll("1:1 error missing-field F; ", "F; ", "id; ") + allMissing},
	{"missing priority", with("priority:-"), "1:1 error missing-field priority"},
	{"null", with("subject: ~"), "7:10 error missing-field subject"},
	{"nothing behind the colon", with("subject:"), "7:9 error missing-field subject"},
	{"empty quotes", with(`subject: ""`), "7:10 error missing-field subject"},
	{"white space in quotes", with(`subject: " \t "`), "7:10 error missing-field subject"},
	{"quoted null is text", with(`subject: "null"`), ""},
	{"words of YAML are text", with("subject: yes", "related_pr: 0042", "body: 1e3"), ""},
	{"outer white space is none", with("priority: ' P2 '", "channel: '  '", "to: [' codex ']"), ""},
	{"blank body", with("body: |\n  \n\n"), "8:7 error missing-field body"},
	{"empty optional fields", with("expires_at:", "channel: ''", "related_pr: ~", "turns: null", "auth: ''"), ""},
	{"list as a text", with("subject: [a]"), "7:10 error field-kind subject"},
	{"mapping as a text", with("from:\n  name: claude"), "3:3 error field-kind from"},
	{"mapping as recipient", with("to: {a: b}"), "3:5 error field-kind to"},
	{"list among recipients", with("to: [codex, [gemini]]"), "3:13 error field-kind to[1]"},

	{"telemetry in fractions", with("type: review_lgtm", "wall_time_s: .5", "est_cost_usd: 1e3"), ""},
	{"telemetry of zero", with("type: review_lgtm", "turns: 0", "input_tokens: 007", "est_cost_usd: 0."), ""},
	{"a fraction of a turn", with("type: review_lgtm", "turns: 1.5"), "7:8 error telemetry-value turns"},
	{"tokens with an exponent", with("type: review_lgtm", "input_tokens: 1e3", "output_tokens: ٤٢"), "7:15 error telemetry-value input_tokens; 8:16 error telemetry-value output_tokens"},
	{"infinite time", with("type: review_lgtm", "wall_time_s: inf", "est_cost_usd: nan"), "7:14 error telemetry-value wall_time_s; 8:15 error telemetry-value est_cost_usd"},
	{"time that no float holds", with("type: review_lgtm", "wall_time_s: 1e999", "est_cost_usd: -1"), "7:14 error telemetry-value wall_time_s; 8:15 error telemetry-value est_cost_usd"},
	{"the year 0", with("created_at_utc: 0000-01-01T00:00:00Z"), "6:17 error time created_at_utc"},
	{"id of no form", with("id: 42"), "1:5 error id-form id"},
	{"id with a short rand", with("id: msg-20260313T1430Z-claude-a8"), "1:5 warning id-rand id"},
	{"id with an underscore", with("id: msg-20260313T1430Z-claude-a_8f"), "1:5 warning id-rand id"},
	{"id without a rand", with("id: msg-20260313T1430Z-claude-"), "1:5 error id-form id"},
	{"id with a long rand", with("id: msg-20260313T1430Z-claude-" + strings.Repeat("a", 65)), "1:5 error id-form id"},
	{"id on no day", with("id: msg-20260231T1430Z-claude-a8f3"), "1:5 error id-form id"},
	{"id too long", with("id: msg-20260313T1430Z-" + strings.Repeat("c", 180) + "-a8f3"), "1:5 error id-form id"},
	{"id with seconds", with("id: msg-20260313T143000Z-claude-a8f"), ""},
	{"id of digits", with("id: msg-20260313143000-claude-0123456789abcdef"), ""},
	{"id of another sender", with("id: msg-20260313T1430Z-gemini-a8f3"), "1:5 warning id-sender id"},
	{"sender ..", with("from: .."), "2:7 error agent-name from"},
	{"sender with a slash", with("from: a/b"), "2:7 error agent-name from"},
	{"sender like a flag", with("from: -x"), "2:7 error agent-name from"},
	{"sender too long", with("from: " + strings.Repeat("a", 65)), "2:7 error agent-name from"},
	{"recipient empty", with("to: [codex, ~]"), "3:13 error agent-name to[1]"},
	{"recipients in one text", with("to: codex,gemini"), "3:5 error agent-name to"},
	{"no recipients", with("to: []"), "3:5 error missing-field to"},
	{"repeated recipient", with("to: [codex, gemini, codex]"), "3:21 error recipients to[2]"},
	{"ten recipients", with("to: [a, b, c, d, e, f, g, h, i, j]"), ""},
	{"eleven recipients", with("to: [a, b, c, d, e, f, g, h, i, j, k]"), "3:5 error recipients to"},
	{"handoff to two", strings.Replace(handoff(), "to: codex", "to: [codex, gemini]", 1), "3:5 error recipients to"},
	{"to the sender", with("to: claude"), "3:5 error self-send to"},
	{"to the sender among others", with("to:\n- codex\n- claude"), "5:3 error self-send to[1]"},
	{"unknown type", with("type: task"), "4:7 error type type"},
	{"unknown priority", with("priority: P4"), "5:11 error priority priority"},
	{"time with an offset", with("created_at_utc: 2026-03-13T14:30:00+01:00"), "6:17 error time created_at_utc"},
	{"time with fractions", with("created_at_utc: 2026-03-13T14:30:00.5Z"), "6:17 error time created_at_utc"},
	{"time of no day", with("expires_at: 2026-02-29T00:00:00Z"), "7:13 error time expires_at"},
	{"expiry before creation", with("expires_at: 2026-03-13T14:29:59Z"), "7:13 warning expiry-order expires_at"},
	{"subject as long as may be", with("subject: " + strings.Repeat("é", 200)), ""},
	{"subject too long", with("subject: " + strings.Repeat("é", 201)), "7:10 error length subject"},
	{"body as long as may be", with("body: \"" + strings.Repeat("é", 20_000) + "  \""), ""},
	{"body too long", with("body: " + strings.Repeat("x", 20_001)), "8:7 error length body"},
	{"channel too long", with("channel: " + strings.Repeat("x", 65)), "7:10 error length channel"},
	{"comment for a text", with("channel: #ops"), "7:9 warning lost-text channel"},
	{"comment beside null", with("channel: ~ #ops"), ""},
	{"comment with a space", with("channel: # ops"), ""},
	{"channel of any characters", with("channel: a b"), "7:10 warning channel-characters channel"},
	{"parent too long", with("parent_message_id: " + strings.Repeat("x", 201)), "7:20 error length parent_message_id"},
	{"parent of no form", with("parent_message_id: x"), "7:20 warning parent-id-form parent_message_id"},
	{"autonomy hint", with("autonomy_hint: auto_proceed"), ""},
	{"unknown autonomy hint", with("autonomy_hint: always"), "7:16 error autonomy-hint autonomy_hint"},
	{"pull request with a #", with("related_pr: '#42'"), "7:13 error related-pr related_pr"},
	{"digits of another script", with("related_pr: ٤٢"), "7:13 error related-pr related_pr"},
	{"conversation of no form", with("conversation_id: conv-20260313-claude"), "7:18 error conversation-id conversation_id"},
	{"conversation with seven digits", with("conversation_id: conv-20260313-claude-1234567"), "7:18 error conversation-id conversation_id"},
	{"500 words of context", with("context_keys: " + strings.Repeat("a ", 500)), ""},
	{"501 words of context", with("context_keys: " + strings.Repeat("a ", 501)), "7:15 warning context-length context_keys"},
	{"501 words of context over lines", with("context_keys: |\n" + strings.Repeat("  word\n", 501) + "#"), "7:15 warning context-length context_keys"},
	{"telemetry in a review", with("type: review_lgtm", "model: m", "turns: 0", "est_cost_usd: 1.5e-3"), ""},
	{"telemetry elsewhere", with("turns: 1"), "7:8 error telemetry-type turns"},
	{"negative telemetry", with("type: review_lgtm", "wall_time_s: -1"), "7:14 error telemetry-value wall_time_s"},
	{"telemetry of no number", with("type: review_lgtm", "turns: 0x10", "input_tokens: 1.", "output_tokens: 1e"), "7:8 error telemetry-value turns; 8:15 error telemetry-value input_tokens; 9:16 error telemetry-value output_tokens"},

	{"signature", with() + "auth: \"" + someAuth + "\"\n", ""},
	{"signature of nothing", with() + "auth: \"abc_-\"\n", "9:7 error auth-form auth"},
	{"signature without signatures", with() + "auth: \"eyJzaWduYXR1cmVzIjpbXX0\"\n", "9:7 error auth-form auth"},
	{"signature in another spelling", with() + "auth: \"" + strings.TrimSuffix(someAuth, "0") + "1\"\n", "9:7 error auth-form auth"},
	{"signature on another line", with("auth: \"" + someAuth + "\""), "7:7 error auth-form auth"},
	{"signature without quotes", with() + "auth: " + someAuth + "\n", "9:7 error auth-form auth"},
	{"signature without a line feed", with() + "auth: \"" + someAuth + "\"", "9:7 error auth-form auth"},
	{"signature with two line feeds", with() + "auth: \"" + someAuth + "\"\n\n", "9:7 error auth-form auth"},
	{"signature with CRLF", with() + "auth: \"" + someAuth + "\"\r\n", "9:7 error auth-form auth"},
	{"signature with a comment", with() + "auth: \"" + someAuth + "\" # x\n", "9:7 error auth-form auth"},
	{"signature not in base64url", with() + "auth: \"a+b\"\n", "9:7 error auth-form auth"},
	{"signature too long", with() + "auth: \"" + strings.Repeat("a", 16_385) + "\"\n", "9:7 error auth-form auth"},

	{"list as body", with("body: [a]"), "8:7 error body-kind body"},
	{"empty mapping as body", with("body: {}"), "8:7 error body-kind body"},
	{"long key", with("body:\n  ? " + strings.Repeat("k", 129) + "\n  : v"), "9:5 error body-key body." + strings.Repeat("k", 60) + "…"},
	{"long key deep inside", with("body: {a: [{\"" + strings.Repeat("k", 129) + "\": v}]}"), "8:13 error body-key body.a[0]." + strings.Repeat("k", 60) + "…"},
	{"handoff in prose", with("type: handoff", "body: Please take over."), "8:7 error typed-body body"},
	{"handoff of comments", with("type: handoff", "body: |\n  # nothing"), "9:3 error typed-body body"},
	{"handoff with broken YAML", with("type: handoff", "body: |\n    intent: a: b"), "9:14 error yaml-syntax body"},
	{"handoff with broken YAML in quotes", with("type: handoff", `body: "intent: a: b"`), "8:7 error yaml-syntax body"},
	{"handoff with an alias in its text", with("type: handoff", "body: |\n"+indent(strings.TrimPrefix(handoffBody("finish", "&x finish"), "body:\n"))), "11:13 error yaml-anchor body.intent"},
	{"handoff without intent", handoff("intent: finish", "intent: ''"), "11:11 error typed-body-field body.intent"},
	{"handoff without a list", handoff("  definition_of_done: [b]\n", ""), "8:1 error typed-body-field body.definition_of_done"},
	{"handoff with a list for a text", handoff("finish", "[a]"), "11:11 error typed-body-field body.intent"},
	{"handoff with a text for a list", handoff("[c]", "c"), "15:20 warning typed-body-list body.context_bundle.files_touched"},
	{"handoff with a mapping for a list", handoff("[c]", "{c: d}"), "15:20 error typed-body-field body.context_bundle.files_touched"},
	{"handoff with an empty list", handoff("[e]", "[]"), "17:19 error typed-body-field body.context_bundle.blockers_hit"},
	{"handoff without a part of its context", handoff("    blockers_hit: [e]\n", ""), "14:3 error typed-body-field body.context_bundle.blockers_hit"},
	{"handoff with a text for its context", with("type: handoff", "body: {source_agent: claude, target_agent: codex, intent: a, artifacts_to_review: [a], definition_of_done: [a], context_bundle: none}"), "8:129 error typed-body-field body.context_bundle"},
	{"handoff to itself", handoff("target_agent: codex", "target_agent: claude"), "10:17 error handoff-agents body.target_agent; 10:17 warning handoff-parties body.target_agent"},
	{"handoff of another", handoff("source_agent: claude", "source_agent: gemini"), "9:17 warning handoff-parties body.source_agent"},
	{"completion", with("type: handoff_complete", "body: {issue: 1, pr: '#2', branch: b, tests_run: [c], next_owner: d}"), ""},
	{"completion with a person for an owner", with("type: handoff_complete", "body: {issue: 1, pr: 2, branch: b, tests_run: c, next_owner: the team}"), "8:62 error agent-name body.next_owner"},
	{"completion with a list for an owner", with("type: handoff_complete", "body: {issue: 1, pr: 2, branch: b, tests_run: c, next_owner: [d]}"), "8:62 error typed-body-field body.next_owner"},
	{"handoff from a path", handoff("source_agent: claude", "source_agent: ../claude"), "9:17 error agent-name body.source_agent; 9:17 warning handoff-parties body.source_agent"},
	{"handoff to a sentence", handoff("target_agent: codex", "target_agent: the next one"), "10:17 error agent-name body.target_agent; 10:17 warning handoff-parties body.target_agent"},
	{"handoff with a null in quotes", handoff("[c]", "'~'"), "15:20 warning typed-body-list body.context_bundle.files_touched"},
	{"completion without an owner", with("type: handoff_complete", "body: {issue: 1, pr: 2, branch: b, tests_run: c}"), "8:1 error typed-body-field body.next_owner"},
	{"completion with prose for a pull request", with("type: handoff_complete", "body: {issue: 1, pr: none, branch: b, tests_run: c, next_owner: d}"), "8:22 error pull-request body.pr"},
	{"completion with a list for a pull request", with("type: handoff_complete", "body: {issue: 1, pr: [2], branch: b, tests_run: c, next_owner: d}"), "8:22 error typed-body-field body.pr"},
	{"follow-up in prose", with("type: follow_up"), "8:7 warning follow-up-field body"},
	{"follow-up without an owner", with("type: follow_up", "body: |\n  source_type: a\n  source_ref: b\n  risk_tier: c\n  summary: d\n  next_action: e"), "8:7 warning follow-up-field body"},
}

const allMissing = "1:1 error missing-field from; 1:1 error missing-field to; 1:1 error missing-field type; 1:1 error missing-field priority; 1:1 error missing-field created_at_utc; 1:1 error missing-field subject; 1:1 error missing-field body"

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ")
}

func handoffBody(replacements ...string) string {
	_, body, _ := strings.Cut(handoff(replacements...), "body:")
	return "body:" + body
}

func manyFields(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, "a%03d: b\n", i)
	}
	return out.String()
}

// summary formats findings as the refusals list them.
func summary(findings Diagnostics) string {
	var out []string
	for _, d := range findings {
		line := fmt.Sprintf("%d:%d %s %s %s", d.Line, d.Column, d.Severity, d.Rule, d.Field)
		out = append(out, strings.TrimSpace(line))
	}
	return strings.Join(out, "; ")
}

func TestRefusals(t *testing.T) {
	for _, test := range refusals {
		t.Run(test.name, func(t *testing.T) {
			m, findings := Bytes("", []byte(test.text))
			got := summary(findings)
			if len(findings) > 50 {
				if len(findings) != maxDiagnostics+1 || findings[maxDiagnostics].Rule != ruleManyProblems {
					t.Fatalf("%d findings, want %d and a last one that says there are more", len(findings), maxDiagnostics)
				}
				got, _, _ = strings.Cut(got, ";")
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s\n%v", got, test.want, findings)
			}
			for _, d := range findings {
				if d.Message == "" || d.Severity != d.Rule.severity() {
					t.Errorf("%+v: want a message and the severity of the rule", d)
				}
			}
			read, err := Read([]byte(test.text))
			lenient := got == "1:1 error missing-field priority"
			if valid := !findings.HasErrors() || lenient; valid != (err == nil) {
				t.Errorf("Read: %v, and the findings are %s", err, got)
			} else if valid && read.Priority == "" {
				t.Error("Read gives a message without a priority")
			}
			if m == nil && !findings.HasErrors() {
				t.Error("neither a message nor an error")
			}
		})
	}
}

// TestEveryRule checks that one of the refusals breaks each rule that one file can break.
func TestEveryRule(t *testing.T) {
	broken := make(map[Rule]bool)
	for _, test := range refusals {
		_, findings := Bytes("", []byte(test.text))
		for _, d := range findings {
			broken[d.Rule] = true
		}
	}
	elsewhere := map[Rule]bool{
		RuleFileUnreadable: true, ruleFileName: true, ruleDuplicateID: true, ruleOuterSpace: true,
		ruleContract: true, RuleContractSchema: true,
		RulePublished: true, RuleRemoved: true, RuleWrongMailbox: true, RuleCopy: true,
	}
	for _, rule := range rules {
		if broken[rule.ID] == elsewhere[rule.ID] {
			t.Errorf("rule %s: broken by a refusal: %v, tested elsewhere: %v; want one of both", rule.ID, broken[rule.ID], elsewhere[rule.ID])
		}
		if rule.Description == "" || !strings.HasSuffix(rule.Description, ".") {
			t.Errorf("rule %s: %q is not a sentence", rule.ID, rule.Description)
		}
	}
}
