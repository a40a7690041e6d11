package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// fieldNames are the documented fields in documented order, then the two AgentPair adds.
var fieldNames = []string{
	"id", "run_id", "type", "from", "to", "content", "signal", "timestamp", "metadata", "iteration",
}

// ParseRecord reads one line of a log, without its newline. The line must hold a JSON object whose known
// fields have the documented JSON types (null is as good as absent) and which has an id or a type; anything
// else is an error. Unknown fields, unknown types and signals, and bytes that are not UTF-8 are no errors:
// see [Record.Warnings]. Of a field that stands twice the last value counts, as with Go's own decoder.
func ParseRecord(line []byte) (Record, error) {
	line = bytes.TrimSpace(line)
	if bytes.ContainsAny(line, "\r\n") && json.Valid(line) {
		var flat bytes.Buffer // a record is one line wherever it came from
		if err := json.Compact(&flat, line); err != nil {
			return Record{}, err
		}
		return parse(flat.Bytes())
	}
	return parse(bytes.Clone(line))
}

// parse is ParseRecord for a line whose bytes the record may keep.
func parse(line []byte) (Record, error) {
	line = bytes.TrimSpace(line)
	if err := checkObject(line); err != nil {
		return Record{}, err
	}
	r := Record{line: line}
	for _, f := range splitFields(line) {
		if err := r.set(f.name, f.value); err != nil {
			return Record{}, err
		}
	}
	if r.ID == "" && r.Type == "" {
		return Record{}, errors.New("an object without id and type is no record")
	}
	if r.ID == "" {
		r.ID = GenerateID(r.Type, r.From, r.To, r.Content)
	}
	return r, nil
}

// checkObject says what is wrong with a line that is no JSON object.
func checkObject(line []byte) error {
	switch {
	case len(line) == 0:
		return errors.New("blank line")
	case line[0] != '{' && json.Valid(line):
		return errors.New("not a JSON object")
	case !json.Valid(line):
		var ignored json.RawMessage
		return fmt.Errorf("not JSON: %w", json.Unmarshal(line, &ignored))
	}
	return nil
}

func isObject(text []byte) bool { return checkObject(bytes.TrimSpace(text)) == nil }

// set gives the field called name the value that stands in raw, valid JSON.
func (r *Record) set(name string, raw []byte) error {
	var err error
	switch name {
	case "id":
		err = setText(&r.ID, raw)
	case "run_id":
		err = setNumber(&r.RunID, raw)
	case "type":
		err = setText(&r.Type, raw)
	case "from":
		err = setText(&r.From, raw)
	case "to":
		err = setText(&r.To, raw)
	case "content":
		err = setText(&r.Content, raw)
	case "signal":
		err = setText(&r.Signal, raw)
	case "timestamp":
		err = setText(&r.Timestamp, raw)
	case "metadata":
		r.Metadata = raw
	case "iteration":
		err = setNumber(&r.Iteration, raw)
	}
	if err != nil {
		return &FieldError{name, err.Error()}
	}
	return nil
}

func setText[T ~string](to *T, raw []byte) error {
	switch {
	case string(raw) == "null":
		*to = ""
	case raw[0] != '"':
		return errors.New("is no JSON string")
	default:
		*to = T(unquote(raw))
	}
	return nil
}

func setNumber(to *int, raw []byte) error {
	*to = 0
	if json.Unmarshal(raw, to) == nil {
		return nil
	}
	// JSON knows one kind of number: 1.0 and 1e2 are whole ones, too.
	const exact = 1 << 53 // beyond, several whole numbers are one float
	var number float64
	if err := json.Unmarshal(raw, &number); err != nil || number != math.Trunc(number) || math.Abs(number) > exact {
		return errors.New("is no integer")
	}
	if *to = int(number); float64(*to) != number {
		return errors.New("is too large")
	}
	return nil
}

// unquote returns the text of a valid JSON string.
func unquote(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		panic("bridge: unquote of an unchecked string: " + err.Error())
	}
	return text
}

// value returns the JSON of the field called name; nil where an absent field says the same.
func (r *Record) value(name string) []byte {
	switch name {
	case "id":
		return quote(r.ID)
	case "run_id":
		return fmt.Append(nil, r.RunID)
	case "type":
		return quote(string(r.Type))
	case "from":
		return quote(r.From)
	case "to":
		return quote(r.To)
	case "content":
		return quote(r.Content)
	case "signal":
		return quote(string(r.Signal))
	case "timestamp":
		return quote(r.Timestamp)
	case "metadata":
		return r.Metadata
	case "iteration":
		if r.Iteration != 0 {
			return fmt.Append(nil, r.Iteration)
		}
	}
	return nil
}

// quote returns text as a JSON string. Only what JSON demands is escaped, and U+2028 and U+2029, at which
// some readers end a line.
func quote(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic("bridge: a string that does not encode: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Encode returns the record as one line of JSON without the newline. A record made here has the eight
// documented fields, then metadata and iteration where they are set. A record that was read is its line,
// with the values changed since replaced in place and an id added where it was missing. Metadata that is not
// JSON is an error.
func (r Record) Encode() ([]byte, error) {
	if r.Metadata != nil {
		if !json.Valid(r.Metadata) {
			return nil, &FieldError{"metadata", "is not JSON"}
		}
		if bytes.ContainsAny(r.Metadata, "\r\n") {
			var flat bytes.Buffer
			if err := json.Compact(&flat, r.Metadata); err != nil {
				return nil, fmt.Errorf("metadata: %w", err)
			}
			r.Metadata = flat.Bytes()
		}
	}
	if r.line == nil {
		return r.encodeFields(nil, fieldNames), nil
	}
	old, err := parse(r.line)
	if err != nil {
		return nil, fmt.Errorf("line of a record that was read: %w", err)
	}
	if !hasField(r.line, "id") {
		old.ID = "" // parse filled it in
	}
	return r.encodeOver(&old), nil
}

// encodeOver writes r over the line old was read from.
func (r *Record) encodeOver(old *Record) []byte {
	fields := splitFields(r.line)
	var missing []string
	changed := false
	for _, name := range fieldNames {
		standing := slices.ContainsFunc(fields, func(f field) bool { return f.name == name })
		same := bytes.Equal(r.value(name), old.value(name))
		switch {
		case !standing && !same:
			missing = append(missing, name)
		case standing && !same:
			changed = true
		}
	}
	if !changed && len(missing) == 0 {
		return bytes.Clone(r.line)
	}
	line := []byte{'{'}
	for _, f := range fields {
		value := f.value
		if slices.Contains(fieldNames, f.name) && !bytes.Equal(r.value(f.name), old.value(f.name)) {
			if value = r.value(f.name); value == nil {
				continue
			}
		}
		line = append(appendComma(line), f.rawName...)
		line = append(append(line, ':'), value...)
	}
	return r.encodeFields(line, missing)
}

// encodeFields adds the named fields to the open object in line and closes it.
func (r *Record) encodeFields(line []byte, names []string) []byte {
	if line == nil {
		line = []byte{'{'}
	}
	for _, name := range names {
		if value := r.value(name); value != nil {
			line = append(appendComma(line), '"')
			line = append(append(line, name...), `":`...)
			line = append(line, value...)
		}
	}
	return append(line, '}')
}

func appendComma(line []byte) []byte {
	if line[len(line)-1] == '{' {
		return line
	}
	return append(line, ',')
}

// MarshalJSON is Encode. (json.Marshal itself then escapes <, > and &; use Encode where bytes matter.)
func (r Record) MarshalJSON() ([]byte, error) { return r.Encode() }

// UnmarshalJSON is ParseRecord.
func (r *Record) UnmarshalJSON(text []byte) error {
	parsed, err := ParseRecord(text)
	if err == nil {
		*r = parsed
	}
	return err
}

// field is one member of a JSON object, its value as it stands.
type field struct {
	name    string
	rawName []byte // in its quotes
	value   []byte
}

// splitFields returns the members of line, a valid JSON object, in order.
func splitFields(line []byte) []field {
	fields := make([]field, 0, len(fieldNames))
	i := skipSpace(line, 1)
	for line[i] != '}' {
		end := skipString(line, i)
		f := field{name: unquote(line[i:end]), rawName: line[i:end]}
		start := skipSpace(line, skipSpace(line, end)+1) // past the colon
		end = skipValue(line, start)
		f.value = line[start:end]
		fields = append(fields, f)
		if i = skipSpace(line, end); line[i] == ',' {
			i = skipSpace(line, i+1)
		}
	}
	return fields
}

func hasField(line []byte, name string) bool {
	return slices.ContainsFunc(splitFields(line), func(f field) bool {
		return f.name == name && string(f.value) != "null" && string(f.value) != `""`
	})
}

func skipSpace(line []byte, i int) int {
	for i < len(line) && strings.IndexByte(" \t\r\n", line[i]) >= 0 {
		i++
	}
	return i
}

// skipString returns the position behind the string that begins at i.
func skipString(line []byte, i int) int {
	for i++; line[i] != '"'; i++ {
		if line[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the position behind the value that begins at i.
func skipValue(line []byte, i int) int {
	depth := 0
	for {
		switch line[i] {
		case '"':
			i = skipString(line, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		default:
			if depth == 0 { // a number or a word
				for i < len(line) && strings.IndexByte(",}] \t\r\n", line[i]) < 0 {
					i++
				}
				return i
			}
		}
		i++
		if depth == 0 {
			return i
		}
	}
}
