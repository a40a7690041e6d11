// Package schema defines the vocabulary of OACP: the message with its fields and types, ids, file
// names, processing order, the canonical YAML encoding, and the JSON Schema documents of messages.
//
// The package writes messages; package validate reads and checks them.
package schema

import "slices"

// Limits of a message and its file. Lengths count characters (Unicode code points) of the text
// without outer white space, never bytes.
const (
	// MaxFileSize is the largest message file in bytes.
	MaxFileSize = 1 << 20
	// MaxDepth is how deep lists and mappings may nest in a file.
	MaxDepth = 1000
	// MaxRecipients is how many agents one message may be addressed to.
	MaxRecipients = 10
	// MaxSubject is the longest subject.
	MaxSubject = 200
	// MaxBody is the longest text body.
	MaxBody = 20_000
	// MaxChannel is the longest channel.
	MaxChannel = 64
	// MaxParentID is the longest parent_message_id.
	MaxParentID = 200
	// MaxBodyKey is the longest key in a structured body. YAML limits a key to 1,024 bytes on its
	// line; this many characters fit however they are escaped.
	MaxBodyKey = 128
	// MaxContextWords is how many words context_keys should have at most.
	MaxContextWords = 500
)

// Message is one OACP message. Every field but To and Body is the text in the file without outer
// white space, so a Message can also hold an invalid one; package validate checks it. An empty
// field is absent.
//
// The fields are those of the OACP message schema, with the telemetry and signature fields of its
// newer revision.
type Message struct {
	ID        ID
	From      AgentName
	To        []AgentName
	Type      Type
	Priority  Priority
	CreatedAt Timestamp
	Subject   string
	// Body is text or a non-empty mapping.
	Body Value

	ExpiresAt      Timestamp
	Channel        string
	AutonomyHint   string
	RelatedPacket  string
	RelatedPR      string
	ConversationID ConversationID
	ParentID       ID
	// ContextKeys is the text of the field without the line of the Marks.
	ContextKeys string
	Marks       Marks

	Telemetry Telemetry

	// Auth is the signature trailer. A signed file is never rendered again: its bytes are the
	// message.
	Auth string
	// File is the text of the file that a signed message was read from, byte for byte. It is not a field of
	// the message, and is empty for a message without a signature.
	File string
	// Arrived is when the file was written, if CreatedAt is later than that; see Dated. It is not a field of the message.
	Arrived Timestamp
}

// Telemetry is what a reviewing agent may report about its own work, as the text in the file. Only
// the three types of review answers carry it.
type Telemetry struct {
	Model        string
	Turns        string
	InputTokens  string
	OutputTokens string
	WallTimeS    string
	EstCostUSD   string
}

// A field describes a field of a message.
type field struct {
	name string
	// text returns the text of the field. It is nil for to and body, which have their own shapes.
	text func(*Message) *string
	// verbatim fields are prose and keep their outer white space.
	verbatim bool
}

// contextField is the field that also has the Marks.
const contextField = "context_keys"

// fields lists all fields in canonical order.
var fields = []field{
	{name: "id", text: func(m *Message) *string { return (*string)(&m.ID) }},
	{name: "from", text: func(m *Message) *string { return (*string)(&m.From) }},
	{name: "to"},
	{name: "type", text: func(m *Message) *string { return (*string)(&m.Type) }},
	{name: "priority", text: func(m *Message) *string { return (*string)(&m.Priority) }},
	{name: "created_at_utc", text: func(m *Message) *string { return (*string)(&m.CreatedAt) }},
	{name: "expires_at", text: func(m *Message) *string { return (*string)(&m.ExpiresAt) }},
	{name: "channel", text: func(m *Message) *string { return &m.Channel }},
	{name: "autonomy_hint", text: func(m *Message) *string { return &m.AutonomyHint }},
	{name: "related_packet", text: func(m *Message) *string { return &m.RelatedPacket }},
	{name: "related_pr", text: func(m *Message) *string { return &m.RelatedPR }},
	{name: "conversation_id", text: func(m *Message) *string { return (*string)(&m.ConversationID) }},
	{name: "parent_message_id", text: func(m *Message) *string { return (*string)(&m.ParentID) }},
	{name: contextField, text: func(m *Message) *string { return &m.ContextKeys }, verbatim: true},
	{name: "model", text: func(m *Message) *string { return &m.Telemetry.Model }},
	{name: "turns", text: func(m *Message) *string { return &m.Telemetry.Turns }},
	{name: "input_tokens", text: func(m *Message) *string { return &m.Telemetry.InputTokens }},
	{name: "output_tokens", text: func(m *Message) *string { return &m.Telemetry.OutputTokens }},
	{name: "wall_time_s", text: func(m *Message) *string { return &m.Telemetry.WallTimeS }},
	{name: "est_cost_usd", text: func(m *Message) *string { return &m.Telemetry.EstCostUSD }},
	{name: "subject", text: func(m *Message) *string { return &m.Subject }},
	{name: "body"},
	{name: "auth", text: func(m *Message) *string { return &m.Auth }},
}

// FieldNames returns the names of all fields in canonical order.
func FieldNames() []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

// TelemetryFields returns the names of the fields of Telemetry.
func TelemetryFields() []string {
	return []string{"model", "turns", "input_tokens", "output_tokens", "wall_time_s", "est_cost_usd"}
}

// TextField returns a pointer to the named field, and whether it keeps its outer white space. It
// returns nil for to, body and unknown names.
func (m *Message) TextField(name string) (text *string, verbatim bool) {
	for i := range fields {
		if f := &fields[i]; f.name == name && f.text != nil {
			return f.text(m), f.verbatim
		}
	}
	return nil, false
}

// IsFor reports whether the message is addressed to the agent.
func (m *Message) IsFor(agent AgentName) bool { return slices.Contains(m.To, agent) }

// Kind is the shape of a Value.
type Kind uint8

// The shapes of a Value.
const (
	// Absent is the shape of the zero Value: there is nothing.
	Absent Kind = iota
	// Null is a plain null or ~ inside a structured body.
	Null
	// Text is a scalar, as it is written in the file.
	Text
	// List is a sequence of values.
	List
	// Mapping is an ordered sequence of keys with values.
	Mapping
)

// Value is a body, or part of a structured one. Kind says which of Text, Items and Pairs is used.
type Value struct {
	Kind  Kind
	Text  string
	Items []Value
	Pairs []Pair
}

// Pair is a key of a Mapping with its value. Keys are distinct.
type Pair struct {
	Key   string
	Value Value
}

// TextValue returns a value of kind Text.
func TextValue(text string) Value { return Value{Kind: Text, Text: text} }

// Get returns the value of a key of a Mapping, Absent if there is none.
func (v Value) Get(key string) Value {
	for _, p := range v.Pairs {
		if p.Key == key {
			return p.Value
		}
	}
	return Value{}
}
