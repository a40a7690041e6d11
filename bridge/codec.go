package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseRecord reads one line of a log, without its newline. The line must hold a JSON object whose known
// fields have the documented JSON types or are null, which counts as absent. The object must have an id or
// a type; anything else is an error. Unknown fields, types and signals, and bytes that are not UTF-8
// are allowed; see [Record.Warnings]. Of a repeated field the last value counts, as in
// encoding/json.
func ParseRecord(line []byte) (Record, error) {
	text, err := object(line)
	if err != nil {
		return Record{}, err
	}
	return parseObject(text)
}

// parseObject returns the record that a JSON object on one line holds.
func parseObject(text string) (Record, error) {
	r := Record{line: text}
	for name, value := range members(text) {
		if err := r.set(name, value); err != nil {
			return Record{}, err
		}
	}
	if r.ID == "" && r.Type == "" {
		return Record{}, errors.New("an object without id and type is not a record")
	}
	if r.ID == "" {
		r.ID, r.lacksID = GenerateID(r.Type, r.From, r.To, r.Content), true
		r.line = text[:len(text)-1] + `,"id":"` + r.ID + `"}` // behind an id that is empty: the last one counts
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

// set gives the field called name the value in raw, which is valid JSON.
func (r *Record) set(name, raw string) (err error) {
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
		r.Metadata = json.RawMessage(raw)
	case "iteration":
		err = setNumber(&r.Iteration, raw)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func setText[T ~string](to *T, raw string) error {
	switch {
	case raw == "null":
		*to = ""
	case raw[0] != '"':
		return errors.New("is not a JSON string")
	default:
		*to = T(unquote(raw))
	}
	return nil
}

func setNumber(to *int, raw string) error {
	if raw == "null" {
		*to = 0
		return nil
	}
	// JSON has one kind of number: 1.0 and 1e2 are also integers. Beyond 2^53 several integers are
	// one float.
	number, err := strconv.ParseFloat(raw, 64)
	*to = int(number)
	if err != nil || float64(*to) != number || math.Abs(number) > 1<<53 {
		return errors.New("is not an integer of at most 53 bits")
	}
	return nil
}

// unquote returns the text of a JSON string. If the string is not valid, it returns the text between the
// quotes.
func unquote(raw string) string {
	inner := raw[1 : len(raw)-1]
	if strings.IndexByte(inner, '\\') < 0 && utf8.ValidString(inner) {
		return inner
	}
	var text string
	if err := json.Unmarshal([]byte(raw), &text); err != nil {
		return inner
	}
	return text
}

// Encode returns the record as one line of JSON without the newline. For a record that was read, that
// is its line, byte for byte, with the documented ID if it had none. Encode returns an error if the
// metadata is not JSON.
func (r Record) Encode() ([]byte, error) {
	if r.line != "" {
		return []byte(r.line), nil
	}
	type fields Record // without this method
	line, err := marshal(fields(r), "")
	if err != nil {
		return nil, fmt.Errorf("metadata: is not JSON: %w", err)
	}
	return bytes.TrimSuffix(line, []byte("\n")), nil
}

// marshal is json.MarshalIndent, but escapes only what JSON demands, and ends in a newline.
func marshal(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(v)
	return out.Bytes(), err
}

// MarshalJSON is Encode. (json.Marshal itself then escapes <, > and &; use Encode where bytes
// matter.)
func (r Record) MarshalJSON() ([]byte, error) { return r.Encode() }

// members yields the names and values of a valid JSON object, in order. An empty text has none.
func members(text string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for i := skipSpace(text, 1); i < len(text) && text[i] == '"'; {
			end := skipString(text, i)
			start := skipSpace(text, skipSpace(text, end)+1) // past the colon
			next := endOfValue(text, start)
			if !yield(unquote(text[i:end]), strings.TrimRight(text[start:next], space)) {
				return
			}
			i = skipSpace(text, next+1) // past the comma
		}
	}
}

const space = " \t\r\n"

func skipSpace(text string, i int) int {
	for i < len(text) && strings.IndexByte(space, text[i]) >= 0 {
		i++
	}
	return i
}

// skipString returns the position behind the string that begins at i.
func skipString(text string, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return i
}

// endOfValue returns the position of the comma or brace behind the value that begins at i.
func endOfValue(text string, i int) int {
	for depth := 0; ; i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
}
