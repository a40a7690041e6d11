package schema

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// documents holds the JSON Schemas (draft 2020-12) of a message and of the bodies that some types
// have. The schema of the message contains the others as definitions, so it is complete.
//
//go:embed documents/*.schema.json
var documents embed.FS

// MessageDocument is the name of the JSON Schema of a whole message.
const MessageDocument = "message"

// documentNames lists the documents, the message first.
var documentNames = []string{MessageDocument, string(Handoff), string(HandoffComplete), string(ReviewFeedback), string(FollowUp)}

// DocumentNames returns the names of the JSON Schema documents: message, and the types whose bodies
// have a schema.
func DocumentNames() []string { return slices.Clone(documentNames) }

// Document returns the JSON Schema of that name.
func Document(name string) ([]byte, error) {
	data, err := documents.ReadFile("documents/" + name + ".schema.json")
	if err != nil {
		return nil, fmt.Errorf("there is no schema %q; there are %s", name, strings.Join(documentNames, ", "))
	}
	return data, nil
}
