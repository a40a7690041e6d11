// Package validate turns bytes and files into decoded messages and findings
// with positions. It is the one place of the rules that make a file a valid
// message.
//
// Decode, Read and Message are made for programs that send and receive, and
// cost microseconds. Bytes and Files report everything that is wrong with
// files, and where.
//
// A file is decoded by parsePlain if it is written the way messages usually
// are, and by yaml.v3 otherwise; both give the same tree of nodes with
// positions. A checker makes a message of the tree and applies the rules.
//
// The published JSON Schema says the same as the rules, as far as a schema
// can. Tests hold the two together: a JSON Schema implementation judges every
// golden and every generated message, and must object where the rules do.
package validate

import (
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// Decode takes a message file apart. The findings are those about its form:
// encoding, YAML, unknown fields, fields of the wrong shape. The message
// holds what could be read and is nil where the file is no mapping of fields.
//
// Every scalar is the text that stands in the file. Lines end as YAML 1.1
// has it, so a raw U+0085, U+2028 or U+2029 ends one, too; in double quotes
// and written as an escape it does not.
//
// Decode does not judge the values: a message that it returns without
// findings may still be invalid, or lack fields, priority among them.
func Decode(data []byte) (*schema.Message, Diagnostics) {
	doc, findings := parseDocument(data)
	if doc == nil {
		return nil, findings
	}
	c := checker{out: findings}
	m := c.assemble(&doc.root)
	return m, c.located(doc)
}

// Read returns the message in a file for a program that acts on it. The
// message must be valid, except that one without a priority is taken to be of
// schema.DefaultPriority. The error is an *InvalidError with every finding
// that is an error.
func Read(data []byte) (*schema.Message, error) {
	doc, findings := parseDocument(data)
	if doc == nil {
		return nil, findings.Err()
	}
	c := checker{out: findings, lenient: true, errorsOnly: true}
	m := c.assemble(&doc.root)
	c.check(m)
	c.checkTrailer(doc)
	if err := c.located(doc).Err(); err != nil {
		return nil, err
	}
	if m.Priority == "" {
		m.Priority = schema.DefaultPriority
	}
	return m, nil
}

// Bytes validates one file: its form, its fields, and what they say together.
// The findings are all that the file gives cause for, each once, in the order
// of their places. The message is nil where the file is no mapping of fields,
// and otherwise holds what could be read.
//
// The name stands in the findings; where it is the name of a message file,
// the content is compared with it. It may be empty.
func Bytes(name string, data []byte) (*schema.Message, Diagnostics) {
	in := inspect(name, data)
	return in.message, in.findings
}

// An inspection is the full validation of one file.
type inspection struct {
	message  *schema.Message
	document *document
	findings Diagnostics
}

func inspect(name string, data []byte) inspection {
	doc, findings := parseDocument(data)
	if doc == nil {
		return inspection{findings: findings.in(name, strings.TrimPrefix(string(data), "\ufeff"))}
	}
	c := checker{out: findings}
	m := c.assemble(&doc.root)
	c.check(m)
	c.checkTrailer(doc)
	c.checkFileName(name)
	return inspection{message: m, document: doc, findings: c.located(doc).in(name, doc.text)}
}

// Message checks a composed message by every rule that needs no file. The
// findings have no position.
//
// A message without errors and without Auth is one that schema.Encode
// renders, unless the file would be too large, and that reads back the same.
func Message(m *schema.Message) Diagnostics {
	c := checker{composed: true}
	c.check(m)
	c.checkComposed()
	return c.located(nil)
}

// parseDocument takes the bytes of a file apart. It returns a nil document,
// and at least one error, where there is no mapping at the top.
func parseDocument(data []byte) (*document, Diagnostics) {
	text, plain, problem := checkSource(data)
	if problem != nil {
		return nil, Diagnostics{*problem}
	}
	root, findings := parseTree(text, plain)
	if root.kind == schema.Mapping {
		return &document{text: text, root: root}, findings
	}
	if !findings.HasErrors() {
		findings = append(findings, treeProblem(int(root.line), int(root.column), nil, RuleTopLevel,
			"a message file is a mapping of fields, not "+kindName(root.kind), "begin with a line such as: id: msg-…"))
	}
	return nil, findings
}

// kindName names the shape of a value in a sentence.
func kindName(kind schema.Kind) string {
	switch kind {
	case schema.Text:
		return "a text"
	case schema.List:
		return "a list"
	case schema.Mapping:
		return "a mapping"
	}
	return "null"
}
