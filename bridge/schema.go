package bridge

import (
	"bytes"
	_ "embed"
)

//go:embed record.schema.json
var recordSchema []byte

// RecordSchema returns the JSON Schema (draft 2020-12) of a record, with titles and descriptions for
// editors. It describes what [Record.Validate] accepts and [Record.Encode] writes; readers are more lenient.
func RecordSchema() []byte { return bytes.Clone(recordSchema) }
