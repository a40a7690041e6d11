package validate

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// seedBytes adds every text the tests know to the corpus.
func seedBytes(f *testing.F) {
	f.Helper()
	count := 0
	for _, folder := range []string{"valid", "invalid"} {
		for _, file := range goldenFiles(f, folder) {
			f.Add(readFile(f, file))
			count++
		}
	}
	for _, test := range refusals {
		if len(test.text) < 4096 {
			f.Add([]byte(test.text))
			count++
		}
	}
	for _, seed := range plainSeeds {
		f.Add([]byte(seed))
		count++
	}
	if count < 200 {
		f.Fatalf("the corpus has %d texts; want all of them", count)
	}
}

// FuzzBytes checks that validation ends with a message or an error, that every finding names a
// place that exists, that Read agrees with it, and that the JSON Schema accepts a message that the
// rules accept.
func FuzzBytes(f *testing.F) {
	seedBytes(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 8<<10 {
			return
		}
		m, findings := Bytes("", data)
		if m == nil && !findings.HasErrors() {
			t.Fatalf("%q: neither a message nor an error", data)
		}
		checkPlaces(t, data, findings)
		decoded, form := Decode(data)
		if (decoded == nil) != (m == nil) || form.HasErrors() && !findings.HasErrors() {
			t.Fatalf("%q: Decode: %v, Bytes: %v", data, form, findings)
		}
		if (decoded != nil) && !reflect.DeepEqual(decoded, m) {
			t.Fatalf("%q: Decode: %+v, Bytes: %+v", data, decoded, m)
		}
		read, err := Read(data)
		if (read == nil) != (m == nil) || read == nil && err == nil {
			t.Fatalf("%q: Read gives %v and %v, Bytes %v; want what can be read", data, read, err, m)
		}
		if onlyPriorityMissing(findings) {
			if err != nil {
				t.Fatalf("%q: Read: %v, want a message", data, err)
			}
		} else if (err != nil) != findings.HasErrors() {
			t.Fatalf("%q: Read: %v, Bytes: %v", data, err, findings)
		}
		checkAgreement(t, data, false)
	})
}

func onlyPriorityMissing(findings Diagnostics) bool {
	errors := 0
	for _, d := range findings {
		if d.Severity == Error {
			if d.Rule != ruleMissingField || d.Field != "priority" {
				return false
			}
			errors++
		}
	}
	return errors == 1
}

func checkPlaces(t *testing.T, data []byte, findings Diagnostics) {
	t.Helper()
	if len(findings) > maxDiagnostics+1 {
		t.Fatalf("%q: %d findings", data, len(findings))
	}
	count := 1
	for _, r := range string(data) {
		if r == '\n' || r == '\r' || isSpecial(r) {
			count++
		}
	}
	for _, d := range findings {
		if d.Line < 1 || d.Line > count || d.Column < 1 || d.Column > len(data)+1 {
			t.Fatalf("%q: no such place: %+v", data, d)
		}
		if d.Message == "" || !utf8.ValidString(d.Message) || strings.ContainsAny(visible.Line(d.Message), "\n\r\x1b") {
			t.Fatalf("%q: bad message: %+v", data, d)
		}
	}
}

// inSchema are the rules that the JSON Schema can express. It knows the form of dates, not the
// calendar, and no limit on names inside of ids.
var inSchema = map[Rule]bool{
	ruleUnknownField: true, ruleMissingField: true, ruleFieldKind: true, ruleLength: true, ruleAgentName: true,
	ruleRecipients: true, ruleType: true, rulePriority: true, ruleTime: true, ruleID: true, ruleConversationID: true,
	ruleAutonomyHint: true, ruleRelatedPR: true, ruleTelemetryType: true, ruleTelemetryValue: true, ruleBodyKind: true,
	ruleTypedBodyField: true, rulePullRequest: true,
}

// checkAgreement fails if the JSON Schema finds something that the rules do not, and, with both
// ways, if it misses something that it can express.
func checkAgreement(t *testing.T, data []byte, bothWays bool) {
	t.Helper()
	doc := new(document)
	findings := doc.parse(data)
	if !doc.isMapping() {
		return
	}
	c := checker{out: findings}
	m := new(schema.Message)
	c.assemble(m, data, &doc.root)
	c.check(m)
	violations := schemaViolations(&doc.root)
	for _, v := range violations {
		if !c.covers(v.at) {
			t.Fatalf("%q: only the JSON Schema objects: %s: %s", data, v.at, v.message)
		}
	}
	if !bothWays || c.full() {
		return
	}
	for _, f := range c.found {
		found := false
		for _, v := range violations {
			found = found || within(v.at.String(), f.Field) || within(f.Field, v.at.String())
		}
		if inSchema[f.Rule] && !found {
			t.Fatalf("%q: the JSON Schema does not object: %s", data, f.Message)
		}
	}
}

// fieldPool has values for every field, right and wrong ones, as YAML.
var fieldPool = map[string][]string{
	"id":                {"msg-20260313T1430Z-claude-a8f3", "msg-20260313143000-a-b-c-000", "msg-20260313T1430Z-claude-a8", "msg-20260313T1430Z-claude-a_8-", "msg-20260313T1430Z-claude-", "msg-1-claude-a8f3", "' msg-20260313T143000Z-x-abc '", "[a]", "~", "42"},
	"from":              {"claude", "codex", "a.b_c-d", "-x", "..", "a/b", strings.Repeat("n", 64), strings.Repeat("n", 65), "''", "{a: b}", "é"},
	"to":                {"codex", "[codex]", "[codex, gemini]", "[codex, codex]", "[]", "[a, b, c, d, e, f, g, h, i, j]", "[a, b, c, d, e, f, g, h, i, j, k]", "[codex, [a]]", "[codex, ~]", "[' codex ', codex]", "a b", "~", "{a: b}", "''"},
	"type":              {"task_request", "handoff", "handoff_complete", "follow_up", "review_lgtm", "review_feedback", "question", "Question", "~", "[handoff]"},
	"priority":          {"P0", "P3", "p1", "' P2 '", "~", "2", "{}"},
	"created_at_utc":    {"2026-03-13T14:30:00Z", "'2026-03-13T14:30:00Z '", "2026-03-13", "2026-03-13T24:00:00Z", "2026-13-01T00:00:00Z", "~", "[]"},
	"subject":           {"Hello", "' '", strings.Repeat("é", 200), strings.Repeat("é", 201), "42", "~", "[a]", "\"\\u00a0\""},
	"body":              {"Hello", "42", "~", "' '", "[]", "[a]", "{}", "{a: b}", "{a: ~, b: [c, {d: e}]}", "{? " + strings.Repeat("k", 129) + " : v}", strings.Repeat("x", 20_001)},
	"expires_at":        {"2026-03-14T14:30:00Z", "''", "~", "soon", "{}"},
	"channel":           {"review", "a b", "''", "~", strings.Repeat("c", 64), strings.Repeat("c", 65), "[a]"},
	"autonomy_hint":     {"auto_proceed", "''", "~", "never", "[]"},
	"related_packet":    {"p-1", "''", "~", "[a]"},
	"related_pr":        {"42", "'#42'", "''", "~", "4.2", "٤٢", "{}"},
	"conversation_id":   {"conv-20260313-claude-001", "conv-20260313-a-b-1", "conv-2026-claude-1", "conv-20260313-claude-1234567", "conv-20260313--1", "''", "~"},
	"parent_message_id": {"msg-20260313T1430Z-claude-a8f3", "x", "''", "~", strings.Repeat("p", 200), strings.Repeat("p", 201)},
	"context_keys":      {"some words", "''", "~", "[a]"},
	"model":             {"m", "''", "~", "[m]"},
	"turns":             {"0", "8", "1.5", "1e3", "1E+3", "-1", ".5", "1.", "1e", "x", "''", "~", "{}"},
	"est_cost_usd":      {"0.42", ".5", "1.", "1e3", "2E-3", "-1", "+1", ".", "1e", "1_000", "0x1p3", "inf", "NaN", "free", "~"},
	"auth":              {someAuth, "abc-_", "abc==", "a+b", "a=b", "''", "~", strings.Repeat("a", 16_384), strings.Repeat("a", 16_385)},
	"chanel":            {"x"},
}

// typedPool has values for the fields of typed bodies.
var typedPool = map[string][]string{
	"source_agent": {"claude", "''", "~", "[a]", "a b", "../x"}, "target_agent": {"codex", "' '", "{a: b}", "-x"}, "intent": {"finish", "~", "[]"},
	"artifacts_to_review": {"[a]", "a", "[]", "''", "{a: b}"}, "definition_of_done": {"[a]", "~"},
	"context_bundle": {
		"{files_touched: [a], decisions_made: [b], blockers_hit: [c], suggested_next_steps: [d]}",
		"{files_touched: [], decisions_made: b, blockers_hit: {c: d}}", "{}", "none", "[a]", "~",
	},
	"issue": {"1", "''", "[a]"}, "pr": {"42", "'#42'", "none", "[42]", "''", "~"}, "branch": {"b", "{}"}, "tests_run": {"[unit]", "[]", "all"},
	"next_owner": {"claude", "~", "the team", "[claude]", "42"}, "source_type": {"review"}, "owner": {"codex", "[]"},
}

// pick renders a random choice of fields, most of them with their first and right value.
func pick(random *rand.Rand, pool map[string][]string, order []string, indent string) string {
	var out strings.Builder
	for _, field := range order {
		values := pool[field]
		if values == nil || random.IntN(12) == 0 {
			continue
		}
		value := values[0]
		if random.IntN(4) == 0 {
			value = values[random.IntN(len(values))]
		}
		out.WriteString(indent + field + ": " + value + "\n")
	}
	return out.String()
}

// FuzzSchemaAgreement checks that the JSON Schema and the rules agree on everything that a schema
// can express.
func FuzzSchemaAgreement(f *testing.F) {
	for seed := range uint64(1000) {
		f.Add(seed)
	}
	order := append(schema.FieldNames(), "chanel")
	typedOrder := append(append(append([]string(nil), typedFields(schema.Handoff)...), handoffCompleteFields...), followUpFields...)
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		pool := make(map[string][]string)
		for field, values := range fieldPool {
			pool[field] = values
		}
		switch random.IntN(3) {
		case 0:
			for _, field := range schema.TelemetryFields() {
				delete(pool, field)
			}
		case 1:
			if body := pick(random, typedPool, typedOrder, "  "); body != "" {
				pool["body"] = []string{"\n" + strings.TrimSuffix(body, "\n")}
				pool["type"] = []string{"handoff", "handoff_complete", "follow_up"}
			}
		}
		checkAgreement(t, []byte(pick(random, pool, order, "")), true)
	})
}

// alphabet holds what texts break on.
var alphabet = []rune("ab cD01 .,:;-#'\"\\/|>[]{}&*!%@`?~=\n\n  \t\r\x00\x07\x7f\u0085\u00a0\u2028\u2029\ufeff\ufffeé驚🎉")

// words are texts that YAML reads as something else.
var words = []string{"", "null", "~", "yes", "0x10", "1e3", "<<", "- a", "a: b", "# c", "---", "...", "|", "%YAML 1.2", " lead", "trail ", "\n", "a\n", "a\n\n", "\na", "a\n b\n", "  a\nb", "\ta", "a\n\n\nb"}

func randomText(random *rand.Rand) string {
	if random.IntN(3) == 0 {
		return words[random.IntN(len(words))]
	}
	var out strings.Builder
	for range random.IntN(30) {
		out.WriteRune(alphabet[random.IntN(len(alphabet))])
	}
	return out.String()
}

func randomValue(random *rand.Rand, depth int) schema.Value {
	switch kind := random.IntN(6); {
	case kind == 0 && depth > 0:
		return schema.Value{Kind: schema.Null}
	case kind == 1 && depth < 4:
		list := schema.Value{Kind: schema.List}
		for range random.IntN(4) {
			list.Items = append(list.Items, randomValue(random, depth+1))
		}
		return list
	case (kind == 2 || depth == 0) && depth < 4:
		mapping := schema.Value{Kind: schema.Mapping}
		for range random.IntN(4) {
			mapping.Pairs = append(mapping.Pairs, schema.Pair{Key: randomText(random), Value: randomValue(random, depth+1)})
		}
		return mapping
	}
	return schema.TextValue(randomText(random))
}

func randomMessage(random *rand.Rand) *schema.Message {
	m := &schema.Message{
		ID: "msg-20260313T1430Z-claude-a8f3", From: "claude", To: []schema.AgentName{"codex"}, Priority: schema.P2,
		Type: schema.Types()[random.IntN(len(schema.Types()))], CreatedAt: "2026-03-13T14:30:00Z",
		Subject: strings.TrimSpace(randomText(random)), Body: schema.TextValue(randomText(random)),
		Channel: strings.TrimSpace(randomText(random)), RelatedPacket: strings.TrimSpace(randomText(random)),
		ContextKeys: randomText(random), ParentID: schema.ID(strings.TrimSpace(randomText(random))),
	}
	if random.IntN(2) == 0 {
		m.Marks = schema.Marks{Final: true, Declined: random.IntN(2) == 0, Choices: []string{"a", randomText(random)}, Hops: random.IntN(3)}
	}
	if random.IntN(2) == 0 {
		m.Body = randomValue(random, 0)
	}
	if random.IntN(2) == 0 && !m.Type.SingleRecipient() {
		m.To = append(m.To, "null", "0x10", "a.b")
	}
	if m.Type.CarriesTelemetry() {
		m.Telemetry = schema.Telemetry{Model: strings.TrimSpace(randomText(random)), Turns: "007", EstCostUSD: "1e-3"}
	}
	return m
}

// FuzzRoundTrip checks that Bytes and Read find a valid message again in what Encode writes, and that the JSON Schema accepts it as well.
func FuzzRoundTrip(f *testing.F) {
	for seed := range uint64(1000) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := randomMessage(rand.New(rand.NewPCG(seed, 0)))
		if Message(m).HasErrors() {
			return
		}
		data, err := schema.Encode(m)
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		got, findings := Bytes("", data)
		if findings.HasErrors() || !reflect.DeepEqual(got, m) {
			t.Fatalf("%s\ngot  %+v\nwant %+v\n%v", data, got, m, findings)
		}
		if read, err := Read(data); err != nil || !reflect.DeepEqual(read, m) {
			t.Fatalf("%s\nRead: %+v, %v\nwant %+v", data, read, err, m)
		}
	})
}

// TestRoundTripReaches checks that the random messages are not all invalid, and that the line parser reads most of what we write.
func TestRoundTripReaches(t *testing.T) {
	valid, quick := 0, 0
	for seed := range uint64(1000) {
		m := randomMessage(rand.New(rand.NewPCG(seed, 0)))
		if Message(m).HasErrors() {
			continue
		}
		valid++
		data, err := schema.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if text, plain, _ := checkSource(data); plain {
			if _, ok := parsePlain(text, nil); ok {
				quick++
			}
		}
	}
	if valid < 300 || quick < valid/3 {
		t.Errorf("of 1000 random messages %d are valid, %d of them read the quick way", valid, quick)
	}
	t.Logf("%d valid, %d read the quick way", valid, quick)
}
