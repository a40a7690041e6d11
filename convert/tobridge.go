package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// ToBridge returns the records of a valid message, one for each recipient in the order of To. Their content
// is the body, behind the subject and a blank line unless the subject is just the body's first line; a
// structured body is canonical YAML. Their metadata carries the message under the key oacp, their id is the
// documented one. A run id of 0 is filled in by the log they are sent to.
//
// A message that was born in the bridge gives the record it was born from, without metadata. Where its id
// does not tell that record's whole id (it was not the documented one), only the log can give the record
// itself; ToBridge then makes one with the documented id and the message in its
// metadata.
//
// The error is a *validate.InvalidError where the message is not valid.
func ToBridge(m *schema.Message, runID int) ([]bridge.Record, error) {
	if err := validate.Message(m).Err(); err != nil {
		return nil, err
	}
	records, err := plainRecords(m, runID)
	if err != nil {
		return nil, err
	}
	o, born := originOf(m)
	if born && o.known() && o.form.of == "" {
		return bornRecords(o, runID)
	}
	metadata, err := carry(m)
	if err != nil {
		return nil, err
	}
	for i := range records {
		records[i].Metadata = metadata
		if records[i], err = sendable(records[i]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// plainRecords returns the records of a message without its metadata.
func plainRecords(m *schema.Message, runID int) ([]bridge.Record, error) {
	if o, born := originOf(m); born {
		r := o.record
		r.RunID, r.ID = runID, bridge.GenerateID(r.Type, r.From, r.To, r.Content)
		return []bridge.Record{r}, nil
	}
	row, ok := rowOfMessage(m.Type)
	if !ok {
		return nil, fmt.Errorf("message %s: type %q has no place in the bridge", m.ID, m.Type)
	}
	text, err := contentOf(m)
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", m.ID, err)
	}
	records := make([]bridge.Record, len(m.To))
	for i, to := range m.To {
		records[i] = bridge.Record{
			ID: bridge.GenerateID(row.Record, string(m.From), string(to), text), RunID: runID,
			Type: row.Record, Signal: row.Signal, From: string(m.From), To: string(to),
			Content: text, Timestamp: string(m.CreatedAt),
		}
	}
	return records, nil
}

// bornRecords returns the record a born message was born from, as if it had been read from its log.
func bornRecords(o origin, runID int) ([]bridge.Record, error) {
	r := o.record
	r.RunID, r.ID = runID, o.id
	r, err := sendable(r)
	if err != nil {
		return nil, err
	}
	return []bridge.Record{r}, nil
}

// sendable returns the record as one that a log takes. What the bridge reference does not document is
// refused of a record made here, but not of one that was read.
func sendable(r bridge.Record) (bridge.Record, error) {
	if r.Validate() == nil {
		return r, nil
	}
	line, err := r.Encode()
	if err != nil {
		return bridge.Record{}, err
	}
	return bridge.ParseRecord(line)
}

// contentOf returns what a message says, as a record's content.
func contentOf(m *schema.Message) (string, error) {
	text := m.Body.Text
	if m.Body.Kind != schema.Text {
		var err error
		if text, err = structuredText(m.Body); err != nil {
			return "", fmt.Errorf("body: %w", err)
		}
	}
	if m.Subject == firstLine(text) {
		return text, nil
	}
	return m.Subject + "\n\n" + text, nil
}

// structuredText renders a structured body as the canonical YAML it is in a message file, one step less
// indented. A body that would be too large as YAML is rendered as JSON.
func structuredText(body schema.Value) (string, error) {
	const head, indent = "\nbody:\n", "  "
	file, err := schema.Encode(&schema.Message{Body: body})
	if errors.Is(err, schema.ErrTooLarge) {
		text, err := body.MarshalJSON()
		return string(text), err
	}
	if err != nil {
		return "", err
	}
	_, lines, ok := strings.Cut(string(file), head)
	if !ok {
		return "", errors.New("the mapping is empty")
	}
	var text strings.Builder
	for line := range strings.Lines(lines) {
		text.WriteString(strings.TrimPrefix(line, indent))
	}
	return text.String(), nil
}

// firstLine returns the first line of a text that is not blank, fit to be a subject: without outer white
// space and control characters, cut at the length of a subject. It is empty for a blank text.
func firstLine(text string) string {
	text = strings.TrimSpace(text)
	if end := strings.IndexAny(text, "\r\n"); end >= 0 {
		text = text[:end]
	}
	count := 0
	for i := range text {
		if count == schema.MaxSubject {
			text = text[:i]
			break
		}
		count++
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || '\u007f' <= r && r <= '\u009f' || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
	return strings.TrimSpace(text)
}

// carry returns the metadata that brings a message through the bridge; carriedBy reads it.
func carry(m *schema.Message) (json.RawMessage, error) {
	text, err := m.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", m.ID, err)
	}
	return append(append([]byte(`{"oacp":`), text...), '}'), nil
}

// idLine is the last line that makes the content of a message distinct from that of another one.
func idLine(id schema.ID) string { return "\nOACP-Id: " + string(id) }

// withoutIDLines is the content without the lines that idLine added.
func withoutIDLines(content string, id schema.ID) string {
	for {
		shorter, ok := strings.CutSuffix(content, idLine(id))
		if !ok {
			return content
		}
		content = shorter
	}
}
