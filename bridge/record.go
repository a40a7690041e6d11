package bridge

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Type is the kind of a record. A record that was read may have a type that is not documented.
type Type string

// The documented types, in the order of AgentPair's bridge reference.
const (
	TypeTask   Type = "task"
	TypeResult Type = "result"
	TypeReview Type = "review"
	TypeSignal Type = "signal"
	TypeChat   Type = "chat"
)

// Types returns the documented types in documented order.
func Types() []Type { return []Type{TypeTask, TypeResult, TypeReview, TypeSignal, TypeChat} }

// Signal is the control signal of a record, empty if there is none.
type Signal string

// The documented signals: the work is done, the reviewer approves it, the reviewer rejects it.
const (
	SignalDone Signal = "DONE"
	SignalPass Signal = "PASS"
	SignalFail Signal = "FAIL"
)

// Signals returns the documented signals in documented order.
func Signals() []Signal { return []Signal{SignalDone, SignalPass, SignalFail} }

// Record is one message of a log. A record read from a log keeps its line, which [Record.Encode]
// returns. To send a changed record, make a new one from its fields.
type Record struct {
	// ID identifies the record in its log. An ID that was read is opaque: AgentPair's own IDs hash
	// more than the documented fields, so IDs are kept and compared, never recomputed.
	ID string `json:"id"`
	// RunID is the number of the run the record belongs to.
	RunID int  `json:"run_id"`
	Type  Type `json:"type"`
	// From names the sending agent.
	From string `json:"from"`
	// To names the receiving agent. If it is empty, the record is a broadcast to every agent but the sender.
	To string `json:"to"`
	// Content is the message itself, any text.
	Content string `json:"content"`
	// Signal is the control signal of a record of type signal, otherwise empty.
	Signal Signal `json:"signal"`
	// Timestamp is the time of creation, RFC 3339. A record that was read may hold any text.
	Timestamp string `json:"timestamp"`
	// Metadata is a JSON object with further facts, or nil.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Iteration is AgentPair's round within the run; zero is not written.
	Iteration int `json:"iteration,omitempty"`

	line string // the line the record was read from; empty for a record made here
}

// GenerateID returns the documented ID: the SHA-256 of the concatenated type, sender, receiver and
// content, as 64 lower-case hexadecimal digits (AgentPair's bridge reference, "ID Generation"). It
// does not cover signal and time.
func GenerateID(t Type, from, to, content string) string {
	sum := sha256.Sum256([]byte(string(t) + from + to + content))
	return hex.EncodeToString(sum[:])
}

// IsFor reports whether the record is for agent: addressed to it, or a broadcast of another agent.
func (r Record) IsFor(agent string) bool {
	if r.To == "" {
		return r.From != agent
	}
	return r.To == agent
}

// SaysTheSame reports whether two records have the same type, sender, receiver, content and signal. Records
// that differ may share a documented ID, which covers neither the signal nor the boundaries of fields.
func (r Record) SaysTheSame(other Record) bool {
	return r.Type == other.Type && r.From == other.From && r.To == other.To && r.Content == other.Content && r.Signal == other.Signal
}

// Validate checks a record made here against AgentPair's bridge reference. The type must be a documented
// one, the sender not the receiver, the signal empty or a documented one, the timestamp in RFC 3339,
// the metadata a JSON object, and all text UTF-8. A record of type signal needs a signal. The ID and the
// timestamp may be empty, because Send fills them in. The error has a line for each problem, which
// begins with the field's name.
func (r Record) Validate() error {
	var found []error
	report := func(field, format string, args ...any) {
		found = append(found, fmt.Errorf(field+": "+format, args...))
	}
	if !slices.Contains(Types(), r.Type) {
		report("type", "%q is not one of %v", r.Type, Types())
	}
	switch {
	case r.From == "":
		report("from", "is empty")
	case r.To == r.From:
		report("to", "%q is the sender", r.To)
	}
	switch {
	case r.Signal != "" && !slices.Contains(Signals(), r.Signal):
		report("signal", "%q is not one of %v", r.Signal, Signals())
	case r.Signal == "" && r.Type == TypeSignal:
		report("signal", "is empty: a record of type signal carries one of %v", Signals())
	}
	if r.Timestamp != "" {
		if _, err := time.Parse(time.RFC3339, r.Timestamp); err != nil {
			report("timestamp", "%q is not an RFC 3339 time", r.Timestamp)
		}
	}
	if _, err := object(r.Metadata); r.Metadata != nil && err != nil {
		report("metadata", "is not a JSON object")
	}
	for _, text := range []struct{ field, value string }{
		{"id", r.ID}, {"from", r.From}, {"to", r.To}, {"content", r.Content}, {"metadata", string(r.Metadata)},
	} {
		if !utf8.ValidString(text.value) {
			report(text.field, "is not UTF-8")
		}
	}
	return errors.Join(found...)
}

//go:embed record.schema.json
var recordSchema []byte

// RecordSchema returns the JSON Schema (draft 2020-12) of a record, with titles and descriptions
// for editors. It describes what [Record.Validate] accepts and [Record.Encode] writes; readers are
// more lenient.
func RecordSchema() []byte { return bytes.Clone(recordSchema) }
