package validate

import (
	"cmp"
	"slices"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// An Objection says that a part of a body does not fit a schema of the workspace. Package contract makes
// them.
type Objection struct {
	// At leads to the part: a string is a key of a mapping, an int the index in a list. It is empty
	// for the body as a whole.
	At []any
	// Key reports whether the objection is about the key at the end of At, not about its value.
	Key bool
	// Message says what is wrong. Fix says what to do, or is empty. Neither is escaped for a terminal.
	Message, Fix string
}

// BodyFields returns the mapping in the body of a message: the body itself, or the one that its text
// contains as YAML. If there is none, it returns false and, for text that is not YAML, diagnostics with
// positions in the body.
func BodyFields(m *schema.Message) (schema.Value, bool, Diagnostics) {
	if m.Body.Kind == schema.Mapping {
		return m.Body, true, nil
	}
	root, findings := parseBody(m)
	if root == nil {
		return schema.Value{}, false, findings
	}
	return root.value(), true, nil
}

// parseBody returns the tree of the mapping in the text of a body, or nil.
func parseBody(m *schema.Message) (*node, Diagnostics) {
	if m.Body.Kind != schema.Text || isBlank(m.Body.Text) {
		return nil, nil
	}
	_, root, findings := parseTree([]byte(m.Body.Text), nil)
	if findings.HasErrors() || root.kind != schema.Mapping {
		return nil, findings
	}
	return &root, nil
}

// A Source says which file the body of a composed message was read from, if any. At most one field is
// set.
type Source struct {
	// BodyFile is the name of the file whose text is the body.
	BodyFile string
	// Draft is the file that holds the whole message.
	Draft *Draft
}

// Objections returns the diagnostics for objections to a composed message. If the body was read from a
// file, they have its name and positions in it. Otherwise their messages name the line of the body.
func Objections(m *schema.Message, source Source, objections []Objection) Diagnostics {
	c := objectionsTo(m, objections)
	if d := source.Draft; d != nil {
		return c.located(d.document).in(d.name, d.document.text)
	}
	if c.body == nil {
		return c.located(nil)
	}
	for i := range c.found {
		f := &c.found[i]
		line, column := c.body.find(f.at[1:], f.atKey)
		f.Line, f.Column, f.inBody = int(line), int(column), source.BodyFile == ""
	}
	slices.SortStableFunc(c.found, func(a, b finding) int { return cmp.Compare(a.Line, b.Line) }) // located drops the lines
	found := c.located(nil)
	if source.BodyFile != "" {
		return found.in(source.BodyFile, m.Body.Text)
	}
	return found
}

func (in *inspection) object(name string, objections []Objection) {
	if len(objections) == 0 {
		return
	}
	found := objectionsTo(&in.message, objections).located(&in.document).in(name, in.document.text)
	in.findings = append(in.findings, found...).ordered()
}

func objectionsTo(m *schema.Message, objections []Objection) *checker {
	c := &checker{m: m}
	c.body, _ = parseBody(m)
	for _, o := range objections {
		at := append(path{"body"}, o.At...)
		problem := treeProblem(0, 0, at, ruleContract, visible.Line(o.Message), visible.Line(o.Fix))
		c.add(finding{Diagnostic: problem, at: at, atKey: o.Key})
	}
	return c
}
