package ash

import (
	"bytes"
	_ "embed"
)

//go:embed command.schema.json
var commandSchema []byte

//go:embed event.schema.json
var eventSchema []byte

// CommandSchema returns the JSON Schema (draft 2020-12) of a line from host to bridge.
func CommandSchema() []byte { return bytes.Clone(commandSchema) }

// EventSchema returns the JSON Schema (draft 2020-12) of a line from bridge to host.
func EventSchema() []byte { return bytes.Clone(eventSchema) }
