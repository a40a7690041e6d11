package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// A checker applies the rules to one message and collects the diagnostics.
type checker struct {
	// lenient accepts a missing priority and omits warnings, as readers do.
	lenient bool
	// composed is set for a message that was not read from a file.
	composed bool
	// draft accepts a message without the fields that sending adds.
	draft bool

	m *schema.Message
	// id has the parts of the message's id.
	id schema.IDParts
	// unread holds the fields whose value could not be read. They have a diagnostic already, so they do
	// not count as missing.
	unread map[string]bool
	// body is the mapping in a text body of a typed message.
	body *node

	// found holds the findings that have no position yet, out the diagnostics that have one.
	found []finding
	out   Diagnostics
}

// A finding is a Diagnostic whose position is still a path.
type finding struct {
	Diagnostic
	at path
	// atKey means that the finding is about the key at the end of the path, not its value.
	atKey bool
	// inBody means that line and column count within the text of the body.
	inBody bool
}

// report adds a finding about the value at the path. The fix may be empty.
func (c *checker) report(rule Rule, at path, fix, format string, args ...any) {
	c.add(finding{Diagnostic: treeProblem(0, 0, at, rule, fmt.Sprintf(format, args...), fix), at: at})
}

// reportKey adds a finding about the key at the end of the path.
func (c *checker) reportKey(rule Rule, at path, fix, format string, args ...any) {
	c.add(finding{Diagnostic: treeProblem(0, 0, at, rule, fmt.Sprintf(format, args...), fix), at: at, atKey: true})
}

func (c *checker) add(f finding) {
	if !c.full() {
		c.found = append(c.found, f)
	}
}

// full reports whether there are so many findings that the search for more can stop.
func (c *checker) full() bool { return len(c.found)+len(c.out) > maxDiagnostics }

// located returns the diagnostics in order, with their positions if there is a document.
func (c *checker) located(doc *document) Diagnostics {
	if len(c.found) == 0 && len(c.out) == 0 {
		return nil
	}
	out := c.out
	for _, f := range c.found {
		d := f.Diagnostic
		switch {
		case doc == nil && f.inBody && d.Line > 0:
			d.Message += fmt.Sprintf(" (line %d of the body)", d.Line)
			d.Line, d.Column = 0, 0
		case doc == nil:
		case f.inBody:
			d.Line, d.Column = doc.inBody(d.Line, d.Column)
		default:
			doc.body = c.body
			d.Line, d.Column = doc.place(f.at, f.atKey)
		}
		out = append(out, d)
	}
	return out.ordered()
}

// assemble sets the fields of an empty message to those in a file, whose bytes are data. Diagnostics about YAML that hide
// the value of a field are already in out.
func (c *checker) assemble(m *schema.Message, data []byte, root *node) {
	for _, d := range c.out {
		switch d.Rule {
		case ruleAlias, ruleDepth, ruleMergeKey, ruleComplexKey:
			c.markUnread(d.Field)
		}
	}
	for i := range root.pairs {
		entry := &root.pairs[i]
		switch entry.key {
		case "to":
			c.assembleRecipients(m, &entry.value)
		case "body":
			c.assembleBody(m, &entry.value)
		default:
			c.assembleText(m, entry)
		}
	}
	if m.Auth != "" {
		m.File = string(data)
	}
}

// markUnread records that the value of the field at the beginning of the path is unknown.
func (c *checker) markUnread(field string) {
	if c.unread == nil {
		c.unread = make(map[string]bool)
	}
	if end := strings.IndexAny(field, ".["); end >= 0 {
		field = field[:end]
	}
	c.unread[field] = true
}

func (c *checker) assembleText(m *schema.Message, entry *pair) {
	text, verbatim := m.TextField(entry.key)
	if text == nil {
		if !c.full() {
			c.reportKey(ruleUnknownField, path{entry.key}, suggestField(entry.key), "a message does not have this field")
		}
		return
	}
	switch entry.value.kind {
	case schema.Text:
		*text = entry.value.text
		if !verbatim {
			*text = strings.TrimSpace(*text)
		}
		if text == &m.ContextKeys {
			m.SetContext(*text)
		}
	case schema.List, schema.Mapping:
		c.wrongKind(&entry.value, path{entry.key}, "text")
	}
}

// warnComments warns of optional fields whose value is a comment that may be meant as text: channel: #ops.
func (c *checker) warnComments(doc *document) {
	for i := range doc.root.pairs {
		field, value := doc.root.pairs[i].key, &doc.root.pairs[i].value
		if text, _ := c.m.TextField(field); text == nil || value.kind != schema.Null || c.full() {
			continue
		}
		if slices.ContainsFunc(c.found, func(f finding) bool { return f.Rule == ruleMissingField && f.Field == field }) {
			continue // its fix says so
		}
		lost, ok := comment(sourceLine(doc.text, int(value.line)), int(value.column))
		if ok && len(lost) > 1 && !strings.ContainsAny(lost[1:2], " \t") {
			c.report(ruleLostText, path{field}, "", "the field has no value, only a comment")
		}
	}
}

func (c *checker) assembleRecipients(m *schema.Message, to *node) {
	switch to.kind {
	case schema.Text:
		m.To = []schema.AgentName{schema.AgentName(strings.TrimSpace(to.text))}
		if m.To[0] == "" {
			m.To = nil
		}
	case schema.List:
		m.To = make([]schema.AgentName, len(to.items))
		for i := range to.items {
			item := &to.items[i]
			if item.kind == schema.List || item.kind == schema.Mapping {
				c.wrongKind(item, path{"to", i}, "an agent name")
			}
			m.To[i] = schema.AgentName(strings.TrimSpace(item.text))
		}
	case schema.Mapping:
		c.wrongKind(to, path{"to"}, "an agent name or a list of them")
	}
}

func (c *checker) assembleBody(m *schema.Message, body *node) {
	switch body.kind {
	case schema.List:
		c.markUnread("body")
		c.report(ruleBodyKind, path{"body"}, "", "a body is text or a mapping, not a list")
	case schema.Null:
	default:
		m.Body = body.value()
	}
}

func (c *checker) wrongKind(v *node, at path, want string) {
	c.markUnread(at[0].(string))
	c.report(ruleFieldKind, at, "", "this is %s; it must be %s", kindName(v.kind), want)
}
