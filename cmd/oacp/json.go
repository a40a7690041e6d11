package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/oacp-go/oacp/schema"
)

// writeJSON prints one object over several lines. Text stays readable: there
// is no HTML here to protect.
func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// writeJSONLine prints one object on one line.
func writeJSONLine(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// recipients is one name as a string and several as an array, as in a message
// file.
type recipients []schema.AgentName

func (r recipients) MarshalJSON() ([]byte, error) {
	if len(r) == 1 {
		return json.Marshal(r[0])
	}
	return json.Marshal([]schema.AgentName(r))
}

// withKeys returns the JSON object of a value, followed by the keys of more.
func withKeys(value, more any) (json.RawMessage, error) {
	var first, second bytes.Buffer
	if err := errors.Join(writeJSONLine(&first, value), writeJSONLine(&second, more)); err != nil {
		return nil, err
	}
	object := bytes.TrimSuffix(bytes.TrimSpace(first.Bytes()), []byte("}"))
	return append(append(object, ','), bytes.TrimPrefix(second.Bytes(), []byte("{"))...), nil
}
