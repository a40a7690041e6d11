package main

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/schema"
)

// recipients is one name as a string and several as an array, as in a message file.
type recipients []schema.AgentName

func (r recipients) MarshalJSON() ([]byte, error) {
	if len(r) == 1 {
		return json.Marshal(r[0])
	}
	return json.Marshal(append([]schema.AgentName{}, r...))
}

// withKeys returns the JSON object of a value, followed by the keys of more.
func withKeys(value, more any) (json.RawMessage, error) {
	var first, second bytes.Buffer
	if err := errors.Join(command.WriteJSONLine(&first, value), command.WriteJSONLine(&second, more)); err != nil {
		return nil, err
	}
	object := bytes.TrimSuffix(bytes.TrimSpace(first.Bytes()), []byte("}"))
	return append(append(object, ','), bytes.TrimPrefix(second.Bytes(), []byte("{"))...), nil
}
