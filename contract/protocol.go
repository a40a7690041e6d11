package contract

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Version is the version of the protocol between a program and oacp-contract. The program writes a
// Start and then a Request for each body to the standard input of oacp-contract, each a line of JSON.
// It reads a Ready and then an Answer for each request, in their order, from its standard output.
const Version = 1

// maxLine bounds a line that oacp-contract writes.
const maxLine = 4 << 20

// Start tells oacp-contract the schemas. It sees no other files.
type Start struct {
	Version int `json:"version"`
	// Files are the texts of the files, by name.
	Files map[string]string `json:"files"`
	// Names are the names of the schemas to apply.
	Names []string `json:"names"`
}

// Ready answers Start.
type Ready struct {
	Version  int       `json:"version"`
	Problems []Problem `json:"problems"`
}

// A Problem says why a schema cannot be applied.
type Problem struct {
	// Name is the name of the schema.
	Name string `json:"name"`
	// File is the file that is wrong.
	File    string `json:"file"`
	Message string `json:"message"`
}

// Request asks whether a body fits schemas.
type Request struct {
	ID    uint64   `json:"id"`
	Names []string `json:"names"`
	// Fields is the body if it is a mapping, or its text holds one. All scalars are texts.
	Fields json.RawMessage `json:"fields,omitempty"`
	// Text is the body if it is text.
	Text *string `json:"text,omitempty"`
}

// Answer answers the Request with the same ID.
type Answer struct {
	ID         uint64      `json:"id"`
	Violations []Violation `json:"violations,omitempty"`
	// Error says why the schemas could not be applied to this body.
	Error string `json:"error,omitempty"`
}

// A Violation is a part of a body that does not fit a schema.
type Violation struct {
	// At leads to the part, by keys and indexes. If Key is set, the violation is about the key at its end.
	At  []string `json:"at"`
	Key bool     `json:"key,omitempty"`
	// Message says what is wrong. Advice is what the schema says about the part, if it says anything.
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"`
	// FreeText reports whether the body is text where the schema demands fields.
	FreeText bool `json:"free_text,omitempty"`
	// File is the file with the keyword.
	File string `json:"file"`
}

// A question is a request with what is needed to understand its answer.
type question struct {
	Request
	fields schema.Value
	// problems says why the text of the body is not YAML.
	problems validate.Diagnostics
}

// ask makes the question about a message, without an id.
func ask(m *schema.Message, names []string) (q question, err error) {
	q.Names = names
	fields, ok, problems := validate.BodyFields(m)
	if q.fields, q.problems = fields, problems; ok {
		q.Fields, err = fields.MarshalJSON()
	}
	if m.Body.Kind == schema.Text {
		q.Text = &m.Body.Text
	}
	return q, err
}

// objections turns the violations of an answer into objections to the body.
func objections(q *question, violations []Violation) []validate.Objection {
	var all []validate.Objection
	for _, v := range violations {
		o := validate.Objection{Key: v.Key, Message: v.Message, Fix: v.Advice}
		o.At = pathIn(q.fields, v.At)
		if v.FreeText {
			o.Message, o.Fix = "the body is free text where fields are required", "write the body as YAML, a field a line"
			if len(q.problems) > 0 {
				o.Message += fmt.Sprintf("; line %d: %s", q.problems[0].Line, q.problems[0].Message)
			}
		}
		if v.File != "" {
			o.Message += fmt.Sprintf(" (%s/%s)", Folder, v.File)
		}
		all = append(all, o)
	}
	return all
}

// pathIn turns steps into keys and indexes. It stops where the value has no such part.
func pathIn(v schema.Value, steps []string) (at []any) {
	for _, step := range steps {
		if v.Kind == schema.List {
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v.Items) {
				return at
			}
			at, v = append(at, i), v.Items[i]
			continue
		}
		if v.Kind != schema.Mapping {
			return at
		}
		at, v = append(at, step), v.Get(step)
	}
	return at
}
