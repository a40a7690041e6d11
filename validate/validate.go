// Package validate decodes message files and checks them. It contains all the rules for a valid
// message, and reports violations with file, line and column.
//
// Decode, Read and Message are for programs that send and receive messages, and take microseconds.
// Bytes and Files report all problems of files, with positions and warnings.
//
// parsePlain decodes files in the usual form and yaml.v3 decodes all others. Both return the same
// tree of nodes with positions. A checker turns the tree into a message and applies the rules.
//
// The published JSON Schema expresses the same rules, as far as a schema can. Tests compare the two on
// every golden message and on generated ones.
package validate

import (
	"strings"
	"sync"

	"github.com/oacp-go/oacp/schema"
)

// Decode parses a message file. Its diagnostics are about form: encoding, YAML, unknown fields,
// fields of the wrong shape. The message holds what could be read and is nil if the file is not a
// mapping of fields.
//
// Every scalar is the text in the file. Lines end as in YAML 1.1: a raw U+0085, U+2028 or U+2029
// ends a line; an escape in double quotes does not.
//
// Decode does not check values: a message without diagnostics may still be invalid or lack required
// fields.
func Decode(data []byte) (*schema.Message, Diagnostics) {
	doc := new(document)
	findings := doc.parse(data)
	if !doc.isMapping() {
		return nil, findings
	}
	c := checker{out: findings}
	m := new(schema.Message)
	c.assemble(m, data, &doc.root)
	return m, c.located(doc)
}

// documents keeps memory for Read, which a listing calls for each of its messages.
var documents = sync.Pool{New: func() any { return new(document) }}

// Read returns the message in a file for a program that acts on it. A missing priority means
// schema.DefaultPriority. If the message is not valid otherwise, Read returns an *InvalidError with every
// error, and the message as far as it could be read: nil if the file is not a mapping of fields.
func Read(data []byte) (*schema.Message, error) {
	doc := documents.Get().(*document)
	defer documents.Put(doc)
	findings := doc.parse(data)
	if !doc.isMapping() {
		return nil, findings.Err()
	}
	c := checker{out: findings, lenient: true}
	m := new(schema.Message)
	c.assemble(m, data, &doc.root)
	c.check(m)
	c.checkTrailer(doc)
	if m.Priority == "" {
		m.Priority = schema.DefaultPriority
	}
	return m, c.located(doc).Err()
}

// Bytes validates one file: its form, its fields, and the fields against each other. It returns all
// diagnostics, each once, in the order of their positions. The message is nil if the file is not a
// mapping of fields, and otherwise holds what could be read.
//
// The diagnostics carry the name, which may be empty. If it is the name of a message file, Bytes
// compares the content with it.
func Bytes(name string, data []byte) (*schema.Message, Diagnostics) {
	in := new(inspection)
	in.run(name, data)
	if !in.document.isMapping() {
		return nil, in.findings
	}
	return &in.message, in.findings
}

// An inspection is the full validation of one file. It can run again for another file, and then
// overwrites its document and its message.
type inspection struct {
	document document
	message  schema.Message
	findings Diagnostics
}

func (in *inspection) run(name string, data []byte) {
	in.message = schema.Message{}
	if in.findings = in.document.parse(data); !in.document.isMapping() {
		in.findings = in.findings.in(name, source(data))
		return
	}
	c := checker{out: in.findings}
	c.assemble(&in.message, data, &in.document.root)
	c.check(&in.message)
	c.checkTrailer(&in.document)
	c.checkFileName(name)
	c.warnComments(&in.document)
	in.findings = c.located(&in.document).in(name, in.document.text)
}

// Message checks a composed message against every rule that does not need a file. The diagnostics
// have no position.
//
// If there are no errors and no Auth, schema.Encode renders the message so that it reads back the same,
// unless the file would be too large. A signed message with its file has to equal the message in the file.
func Message(m *schema.Message) Diagnostics {
	c := checker{composed: true}
	c.check(m)
	c.checkComposed()
	c.checkSignedFile()
	return c.located(nil)
}

// source returns the text of a file without its byte order mark, which is in no line.
func source(data []byte) string { return strings.TrimPrefix(string(data), "\ufeff") }

// isMapping reports whether the document is a mapping of fields, and so a message.
func (d *document) isMapping() bool { return d.root.kind == schema.Mapping }

// parse sets d to the document in the bytes of a file. If that is not a mapping, parse returns at
// least one error.
func (d *document) parse(data []byte) Diagnostics {
	text, root, findings := parseTree(data, d.scratch())
	*d = document{text: text, root: root}
	if !d.isMapping() && !findings.HasErrors() {
		message, fix, ok := explainWideColon(sourceLine(text, int(root.line)))
		if !ok {
			message, fix = "a message file is a mapping of fields, not "+kindName(root.kind), "begin with a line such as: id: msg-…"
		}
		findings = append(findings, treeProblem(int(root.line), int(root.column), nil, ruleTopLevel, message, fix))
	}
	return findings
}

// scratch returns an empty slice for the fields of a message. It reuses the slice of the last file.
func (d *document) scratch() []pair {
	if cap(d.root.pairs) == 0 {
		return make([]pair, 0, 12)
	}
	clear(d.root.pairs)
	return d.root.pairs[:0]
}

// kindName returns the name of a kind of value for a sentence.
func kindName(kind schema.Kind) string {
	switch kind {
	case schema.Text:
		return "text"
	case schema.List:
		return "a list"
	case schema.Mapping:
		return "a mapping"
	}
	return "null"
}
