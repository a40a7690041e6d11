package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/oacp-go/oacp/internal/jsonl"
)

// ParseRecord reads one line of a log, without its newline. The line must hold a JSON object whose known
// fields have the documented JSON types or are null, which counts as absent. The object must have an id or
// a type; anything else is an error. Unknown fields, types and signals, and bytes that are not UTF-8
// are allowed. If a field is repeated, its last value counts, as in encoding/json.
func ParseRecord(line []byte) (Record, error) {
	text, err := object(line)
	if err != nil {
		return Record{}, err
	}
	var fields map[string]json.RawMessage // encoding/json alone ignores the case of names
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return Record{}, err
	}
	r := Record{line: text, Metadata: fields["metadata"]}
	err = errors.Join(
		setText(&r.ID, fields, "id"), setNumber(&r.RunID, fields, "run_id"), setText(&r.Type, fields, "type"),
		setText(&r.From, fields, "from"), setText(&r.To, fields, "to"), setText(&r.Content, fields, "content"),
		setText(&r.Signal, fields, "signal"), setText(&r.Timestamp, fields, "timestamp"),
		setNumber(&r.Iteration, fields, "iteration"))
	if err != nil {
		return Record{}, err
	}
	if r.ID == "" && r.Type == "" {
		return Record{}, errors.New("an object without id and type is not a record")
	}
	if r.ID == "" {
		r.ID = GenerateID(r.Type, r.From, r.To, r.Content)
		r.line = text[:len(text)-1] + `,"id":"` + r.ID + `"}` // if there is an empty id before it, the last one counts
	}
	return r, nil
}

// object returns the JSON object in line, on one line and without the spaces around it.
func object(line []byte) (string, error) {
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0:
		return "", errors.New("blank line")
	case !json.Valid(line):
		var ignored json.RawMessage
		return "", fmt.Errorf("not JSON: %w", json.Unmarshal(line, &ignored))
	case line[0] != '{':
		return "", errors.New("not a JSON object")
	}
	return onOneLine(line)
}

// onOneLine returns JSON without line breaks, and without other changes if it has none.
func onOneLine(text []byte) (string, error) {
	if bytes.IndexByte(text, '\n') < 0 && bytes.IndexByte(text, '\r') < 0 {
		return string(text), nil
	}
	var flat bytes.Buffer
	err := json.Compact(&flat, text)
	return flat.String(), err
}

// setText sets a text to the named field, or to the empty text if the field is missing or null.
func setText[T ~string](to *T, fields map[string]json.RawMessage, name string) error {
	if err := json.Unmarshal(orNull(fields[name]), to); err != nil {
		return fmt.Errorf("%s: is not a JSON string", name)
	}
	return nil
}

// setNumber sets a number to the named field, or to zero if the field is missing or null.
func setNumber(to *int, fields map[string]json.RawMessage, name string) error {
	// JSON has only one kind of number, so 1.0 and 1e2 are integers. A float64 cannot hold every integer
	// beyond 2^53.
	var number float64
	err := json.Unmarshal(orNull(fields[name]), &number)
	*to = int(number)
	if err != nil || float64(*to) != number || math.Abs(number) > 1<<53 {
		return fmt.Errorf("%s: is not an integer of at most 53 bits", name)
	}
	return nil
}

func orNull(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}
	return value
}

// Encode returns the record as one line of JSON without the newline. For a record that was read, it
// returns the same line, byte for byte, with the documented ID if it had none. Encode returns an error
// if the metadata is not JSON.
func (r Record) Encode() ([]byte, error) {
	if r.line != "" {
		return []byte(r.line), nil
	}
	type fields Record // without this method
	line, err := jsonl.Encode(fields(r))
	if err != nil {
		return nil, fmt.Errorf("metadata: is not JSON: %w", err)
	}
	return bytes.TrimSuffix(line, []byte("\n")), nil
}

// MarshalJSON returns the bytes of Encode. json.Marshal then escapes <, > and &; use Encode to keep the
// bytes.
func (r Record) MarshalJSON() ([]byte, error) { return r.Encode() }
