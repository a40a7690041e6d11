package validate

import (
	"fmt"
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
		c.report(RuleEncoding, path{"body"}, "the text is not UTF-8", "")
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
		if !c.errorsOnly {
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
			c.report(RuleEncoding, at, "the text is not UTF-8", "")
		}
		return
	case schema.Null:
		return
	case schema.List, schema.Mapping:
	default:
		c.report(RuleBodyKind, at, "a value is text, a list, a mapping or null", "")
		return
	}
	if depth > schema.MaxDepth {
		c.report(RuleDepth, at[:1], tooDeep, "")
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
		if len(p.Key) > schema.MaxBodyKey && utf8.RuneCountInString(p.Key) > schema.MaxBodyKey {
			c.reportKey(RuleBodyKey, append(at, p.Key), fmt.Sprintf("the key has %d characters; the most is %d", utf8.RuneCountInString(p.Key), schema.MaxBodyKey), "")
		}
		if !c.composed {
			continue
		}
		if !utf8.ValidString(p.Key) {
			c.report(RuleEncoding, append(at, p.Key), "the key is not UTF-8", "")
		}
		if seen[p.Key] {
			c.report(RuleDuplicateKey, append(at, p.Key), "the key is repeated", "keep one of the two")
		}
		seen[p.Key] = true
	}
}

// typedBody returns the mapping in the body of a typed message, written as a mapping or as text
// that contains one. It reports text that is not a mapping, unless the type only recommends one.
func (c *checker) typedBody(recommended bool) (schema.Value, bool) {
	body := c.m.Body
	switch body.Kind {
	case schema.Mapping:
		return body, len(body.Pairs) > 0
	case schema.Text:
		if isBlank(body.Text) {
			return schema.Value{}, false
		}
	default:
		return schema.Value{}, false
	}
	root, findings := c.parseBodyText(body.Text)
	if recommended && (findings.HasErrors() || root.kind != schema.Mapping) {
		return schema.Value{Kind: schema.Mapping}, true
	}
	for _, d := range findings {
		if d.Field == "" {
			d.Field, d.Message = "body", "body: "+d.Message
		} else {
			d.Field, d.Message = "body."+d.Field, "body."+d.Message
		}
		c.add(finding{Diagnostic: d, inBody: true})
	}
	if root.kind != schema.Mapping {
		if !findings.HasErrors() {
			c.report(RuleTypedBody, path{"body"}, fmt.Sprintf("the body of a %s is a YAML mapping, not free text", c.m.Type), "write the body as fields: "+strings.Join(typedFields(c.m.Type), ", "))
		}
		return schema.Value{}, false
	}
	c.body = &root
	return root.value(), true
}

// parseBodyText parses the text of a body as YAML.
func (c *checker) parseBodyText(text string) (node, Diagnostics) {
	checked, plain, problem := checkSource([]byte(text))
	if problem != nil {
		return node{}, Diagnostics{*problem}
	}
	root, findings := parseTree(checked, plain)
	for i := range findings {
		if findings[i].Rule == RuleFileEmpty {
			findings[i].Rule, findings[i].Message = RuleTypedBody, "the body contains only comments"
		}
	}
	return root, findings
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
	return append(append(append([]string(nil), handoffTexts...), handoffLists...), "context_bundle")
}

func (c *checker) checkHandoff() {
	body, ok := c.typedBody(false)
	if !ok {
		return
	}
	at := path{"body"}
	for _, field := range handoffTexts {
		c.requireText(body, at, field)
	}
	for _, field := range handoffLists {
		c.requireList(body, at, field)
	}
	bundle := body.Get("context_bundle")
	switch {
	case isEmptyValue(bundle):
		c.requireField(body, at, "context_bundle")
	case bundle.Kind != schema.Mapping:
		c.report(RuleTypedBodyField, path{"body", "context_bundle"}, "this must be a mapping", "write it with the fields "+strings.Join(contextBundleLists, ", "))
	default:
		for _, field := range contextBundleLists {
			c.requireList(bundle, path{"body", "context_bundle"}, field)
		}
	}
	source, target := textOf(body.Get("source_agent")), textOf(body.Get("target_agent"))
	if source != "" && source == target {
		c.report(RuleHandoffAgents, path{"body", "target_agent"}, fmt.Sprintf("%s is also the source_agent; a handoff has two parties", quote(target)), "")
	}
	if !c.errorsOnly {
		c.checkParties(source, target)
	}
}

func (c *checker) checkParties(source, target string) {
	if source != "" && c.m.From != "" && source != string(c.m.From) {
		c.report(RuleHandoffParties, path{"body", "source_agent"}, fmt.Sprintf("%s is not the sender, %s", quote(source), quote(string(c.m.From))), "")
	}
	if target != "" && len(c.m.To) > 0 && !c.m.IsFor(schema.AgentName(target)) {
		c.report(RuleHandoffParties, path{"body", "target_agent"}, fmt.Sprintf("%s is not the recipient, %s", quote(target), quote(string(c.m.To[0]))), "")
	}
}

func (c *checker) checkHandoffComplete() {
	body, ok := c.typedBody(false)
	if !ok {
		return
	}
	at := path{"body"}
	for _, field := range handoffCompleteFields {
		c.requireField(body, at, field)
	}
	pr := body.Get("pr")
	if text := textOf(pr); text != "" && !isDigits(strings.TrimPrefix(text, "#")) {
		c.report(RulePullRequest, path{"body", "pr"}, fmt.Sprintf("%s is not the number of a pull request", quote(text)), `write it as 42 or "#42"`)
	} else if text == "" && !isEmptyValue(pr) {
		c.report(RuleTypedBodyField, path{"body", "pr"}, "this must be text", "")
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
		c.report(RuleFollowUpField, path{"body"}, "a follow_up should say its "+strings.Join(missing, ", "), "add them to the body, a line each")
	}
}

// isEmptyValue reports whether a value is null, blank or without elements.
func isEmptyValue(v schema.Value) bool {
	switch v.Kind {
	case schema.Text:
		return isBlank(v.Text)
	case schema.List:
		return len(v.Items) == 0
	case schema.Mapping:
		return len(v.Pairs) == 0
	}
	return true
}

// textOf returns text without outer white space, or nothing for a value of another kind.
func textOf(v schema.Value) string {
	if v.Kind != schema.Text {
		return ""
	}
	return strings.TrimSpace(v.Text)
}

// requireField reports a field that is missing or empty and returns false for it.
func (c *checker) requireField(in schema.Value, at path, field string) bool {
	if !isEmptyValue(in.Get(field)) {
		return true
	}
	c.report(RuleTypedBodyField, append(at[:len(at):len(at)], field), fmt.Sprintf("a %s needs this field, which is missing or empty", c.m.Type), "")
	return false
}

func (c *checker) requireText(in schema.Value, at path, field string) {
	if c.requireField(in, at, field) && in.Get(field).Kind != schema.Text {
		c.report(RuleTypedBodyField, append(at[:len(at):len(at)], field), "this must be text, not "+kindName(in.Get(field).Kind), "")
	}
}

func (c *checker) requireList(in schema.Value, at path, field string) {
	if !c.requireField(in, at, field) {
		return
	}
	at = append(at[:len(at):len(at)], field)
	switch in.Get(field).Kind {
	case schema.Text:
		if !c.errorsOnly {
			c.report(RuleTypedBodyList, at, "this is a single value; the field is documented as a list", "write it as a list, an item a line")
		}
	case schema.Mapping:
		c.report(RuleTypedBodyField, at, "this must be a list, not a mapping", "")
	}
}
