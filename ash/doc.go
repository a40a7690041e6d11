// Package ash speaks both ends of the Ash bridge protocol: commands and events as lines of JSON
// over a Unix socket. docs/ash.md describes the protocol, and [CommandSchema] and [EventSchema] its
// fields.
//
// The host drives an agent that lives in a bridge process. [Client] is the host's end: it connects
// to a bridge, or starts one, and turns a query into a stream of messages. [Server] is the bridge's
// end: it listens on the socket and runs each query through a [Handler].
package ash

import _ "embed"

//go:embed command.schema.json
var commandSchema string

//go:embed event.schema.json
var eventSchema string

// CommandSchema returns the JSON Schema (draft 2020-12) of a line from host to bridge.
func CommandSchema() []byte { return []byte(commandSchema) }

// EventSchema returns the JSON Schema (draft 2020-12) of a line from bridge to host.
func EventSchema() []byte { return []byte(eventSchema) }
