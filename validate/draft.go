package validate

import (
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// A Draft is a message in a file, prepared for sending. It need not have an id, a time or a priority.
type Draft struct {
	// Message is the message in the file. The caller may complete it before Check.
	Message *schema.Message

	name     string
	document *document
	// form has the findings about the form of the file, and unread the fields that they hide.
	form   Diagnostics
	unread map[string]bool
}

// ParseDraft reads a draft. It returns an *InvalidError if the file is not a mapping of fields. The name
// is the file of all diagnostics.
func ParseDraft(name string, data []byte) (*Draft, error) {
	doc := new(document)
	findings := doc.parse(data)
	if !doc.isMapping() {
		return nil, findings.in(name, source(data)).Err()
	}
	c := checker{out: findings}
	d := &Draft{Message: new(schema.Message), name: name, document: doc}
	c.assemble(d.Message, data, &doc.root)
	d.form, d.unread = c.located(doc), c.unread
	return d, nil
}

// Check returns an *InvalidError, with positions in the file, if the file or the message is not valid,
// ignoring fields that sending fills in.
func (d *Draft) Check() error {
	c := checker{out: slices.Clone(d.form), unread: d.unread, draft: true}
	c.check(d.Message)
	c.checkTrailer(d.document)
	found := c.located(d.document).in(d.name, d.document.text)
	for i := range found {
		field, _, _ := strings.Cut(found[i].Field, ".")
		if text, _ := d.Message.TextField(field); text != nil && *text != "" && d.document.root.get(field) == nil {
			found[i].File, found[i].Line, found[i].Column = "", 0, 0 // the field is not from the file
		}
	}
	return found.Err()
}
