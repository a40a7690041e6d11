package validate

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/schema"
)

// checkBody checks a structured body, and the body of a type that requires one.
func (c *checker) checkBody() {
	if c.m.Body.Kind == schema.Mapping {
		// The message itself is the first level of nesting.
		c.checkValue(c.m.Body, path{"body"}, 2)
	} else if c.composed && !utf8.ValidString(c.m.Body.Text) {
		c.report(ruleEncoding, path{"body"}, "", "the text is not UTF-8")
	}
	if c.unread["body"] || c.full() {
		return
	}
	switch c.m.Type {
	case schema.Handoff:
		c.checkHandoff()
	case schema.HandoffComplete:
		c.checkHandoffComplete()
	case schema.FollowUp:
		if !c.lenient {
			c.checkFollowUp()
		}
	}
}

// checkValue checks the keys in part of a structured body and, in a composed message, its texts and
// shape.
func (c *checker) checkValue(v schema.Value, at path, depth int) {
	if c.full() {
		return
	}
	switch v.Kind {
	case schema.Text:
		if c.composed && !utf8.ValidString(v.Text) {
			c.report(ruleEncoding, at, "", "the text is not UTF-8")
		}
		return
	case schema.Null:
		return
	case schema.List, schema.Mapping:
	default:
		c.report(ruleBodyKind, at, "", "a value is text, a list, a mapping or null")
		return
	}
	if depth > schema.MaxDepth {
		c.report(ruleDepth, at[:1], "", "%s", tooDeep)
		return
	}
	at = at[:len(at):len(at)]
	for i, item := range v.Items {
		c.checkValue(item, append(at, i), depth+1)
	}
	c.checkKeys(v, at)
	for _, p := range v.Pairs {
		c.checkValue(p.Value, append(at, p.Key), depth+1)
	}
}

func (c *checker) checkKeys(v schema.Value, at path) {
	var seen map[string]bool
	if c.composed {
		seen = make(map[string]bool, len(v.Pairs))
	}
	for _, p := range v.Pairs {
		if n := utf8.RuneCountInString(p.Key); n > schema.MaxBodyKey {
			c.reportKey(ruleBodyKey, append(at, p.Key), "", "the key has %d characters; the most is %d", n, schema.MaxBodyKey)
		}
		if !c.composed {
			continue
		}
		if !utf8.ValidString(p.Key) {
			c.report(ruleEncoding, append(at, p.Key), "", "the key is not UTF-8")
		}
		if seen[p.Key] {
			c.report(RuleDuplicateKey, append(at, p.Key), "keep one of the two", "the key is repeated")
		}
		seen[p.Key] = true
	}
}

// typedBody returns the mapping in the body of a typed message, written as a mapping or as text
// that contains one. It reports text that is not a mapping, unless the type only recommends one.
func (c *checker) typedBody(recommended bool) (schema.Value, bool) {
	body := c.m.Body
	if body.Kind != schema.Text || isBlank(body.Text) {
		return body, len(body.Pairs) > 0
	}
	_, root, findings := parseTree([]byte(body.Text), nil)
	if recommended && (findings.HasErrors() || root.kind != schema.Mapping) {
		return schema.Value{Kind: schema.Mapping}, true
	}
	for _, d := range findings {
		if d.Rule == ruleFileEmpty {
			d.Rule, d.Message = ruleTypedBody, "the body contains only comments"
		}
		if d.Field == "" {
			d.Field, d.Message = "body", "body: "+d.Message
		} else {
			d.Field, d.Message = "body."+d.Field, "body."+d.Message
		}
		c.add(finding{Diagnostic: d, inBody: true})
	}
	if root.kind != schema.Mapping {
		if !findings.HasErrors() {
			c.report(ruleTypedBody, path{"body"}, "write the body as fields: "+strings.Join(typedFields(c.m.Type), ", "),
				"the body of a %s is a YAML mapping, not free text", c.m.Type)
		}
		return schema.Value{}, false
	}
	c.body = &root
	return root.value(), true
}

// Fields of the typed bodies in the OACP message schema.
var (
	handoffTexts          = []string{"source_agent", "target_agent", "intent"}
	handoffLists          = []string{"artifacts_to_review", "definition_of_done"}
	contextBundleLists    = []string{"files_touched", "decisions_made", "blockers_hit", "suggested_next_steps"}
	handoffCompleteFields = []string{"issue", "pr", "branch", "tests_run", "next_owner"}
	followUpFields        = []string{"source_type", "source_ref", "risk_tier", "summary", "next_action", "owner"}
)

func typedFields(t schema.Type) []string {
	if t == schema.HandoffComplete {
		return handoffCompleteFields
	}
	return slices.Concat(handoffTexts, handoffLists, []string{"context_bundle"})
}

func (c *checker) checkHandoff() {
	body, ok := c.typedBody(false)
	if !ok {
		return
	}
	at := path{"body"}
	c.requireFields(body, at, schema.Text, handoffTexts...)
	c.requireFields(body, at, schema.List, handoffLists...)
	c.requireFields(body, at, schema.Mapping, "context_bundle")
	if bundle := body.Get("context_bundle"); len(bundle.Pairs) > 0 {
		c.requireFields(bundle, path{"body", "context_bundle"}, schema.List, contextBundleLists...)
	}
	c.checkAgents(body, "source_agent", "target_agent")
	source, target := textOf(body.Get("source_agent")), textOf(body.Get("target_agent"))
	if source != "" && source == target {
		c.report(ruleHandoffAgents, path{"body", "target_agent"}, "",
			"%s is also the source_agent; a handoff has two parties", quote(target))
	}
	if c.lenient {
		return
	}
	if from := string(c.m.From); source != "" && from != "" && source != from {
		c.report(ruleHandoffParties, path{"body", "source_agent"}, "",
			"%s is not the sender, %s", quote(source), quote(from))
	}
	if target != "" && len(c.m.To) > 0 && !c.m.IsFor(schema.AgentName(target)) {
		c.report(ruleHandoffParties, path{"body", "target_agent"}, "",
			"%s is not the recipient, %s", quote(target), quote(c.m.To[0]))
	}
}

func (c *checker) checkHandoffComplete() {
	body, ok := c.typedBody(false)
	if !ok {
		return
	}
	c.requireFields(body, path{"body"}, schema.Absent, "issue", "pr", "branch", "tests_run")
	c.requireFields(body, path{"body"}, schema.Text, "next_owner")
	c.checkAgents(body, "next_owner")
	pr := body.Get("pr")
	if text := textOf(pr); text != "" && !isDigits(strings.TrimPrefix(text, "#")) {
		c.report(rulePullRequest, path{"body", "pr"}, `write it as 42 or "#42", or as 0 if there is none`,
			"%s is not the number of a pull request", quote(text))
	} else if text == "" && !isEmptyValue(pr) {
		c.report(ruleTypedBodyField, path{"body", "pr"}, "", "this must be text")
	}
}

func (c *checker) checkAgents(body schema.Value, fields ...string) {
	for _, field := range fields {
		if name := schema.AgentName(textOf(body.Get(field))); name != "" && !name.Valid() {
			c.reportName(name, path{"body", field})
		}
	}
}

func (c *checker) checkFollowUp() {
	body, ok := c.typedBody(true)
	if !ok {
		return
	}
	var missing []string
	for _, field := range followUpFields {
		if isEmptyValue(body.Get(field)) {
			missing = append(missing, field)
		}
	}
	if len(missing) > 0 {
		c.report(ruleFollowUpField, path{"body"}, "add them to the body, a line each",
			"a follow_up should say its %s", strings.Join(missing, ", "))
	}
}

// isEmptyValue reports whether a value is absent, null, blank, without elements, or a list of nulls.
func isEmptyValue(v schema.Value) bool {
	if v.Kind == schema.List {
		return !slices.ContainsFunc(v.Items, func(item schema.Value) bool { return item.Kind > schema.Null })
	}
	return v.Kind <= schema.Null || isBlank(v.Text) && len(v.Items) == 0 && len(v.Pairs) == 0
}

// textOf returns the text of a value without outer white space. It is empty for other kinds of value.
func textOf(v schema.Value) string { return strings.TrimSpace(v.Text) }

// requireFields reports fields that are missing, empty or not of the wanted kind. Absent stands for any
// kind. A text instead of a list is only a warning.
func (c *checker) requireFields(in schema.Value, at path, want schema.Kind, fields ...string) {
	for _, field := range fields {
		v, at := in.Get(field), append(at[:len(at):len(at)], field)
		switch {
		case isEmptyValue(v):
			c.report(ruleTypedBodyField, at, "", "a %s needs this field, which is missing or empty", c.m.Type)
		case want == schema.Absent || v.Kind == want:
		case want == schema.List && v.Kind == schema.Text:
			if !c.lenient {
				c.report(ruleTypedBodyList, at, "write it as a list, an item a line",
					"this is a single value; the field is documented as a list")
			}
		default:
			c.report(ruleTypedBodyField, at, "", "this must be %s, not %s", kindName(want), kindName(v.Kind))
		}
	}
}
