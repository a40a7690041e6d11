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

// ToBridge returns the records of a valid message, one for each recipient in the order of To. Their content is the
// body, preceded by the subject and a blank line unless the subject is the body's first line; a structured body is
// canonical YAML. Their metadata carries the message under the key oacp, their id is the documented one. The log
// that the records are sent to replaces a run id of 0 by its own.
//
// A derived message gives one record, which says what the record it was derived from says, also if that was a
// broadcast.
//
// The error is a *validate.InvalidError if the message is not valid.
func ToBridge(m *schema.Message, runID int) ([]bridge.Record, error) {
	if err := validate.Message(m).Err(); err != nil {
		return nil, err
	}
	records, err := plainRecords(m, runID)
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", m.ID, err)
	}
	metadata, err := carry(m)
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", m.ID, err)
	}
	for i := range records {
		records[i].Metadata = metadata
	}
	return records, nil
}

// plainRecords returns the records of a message without metadata.
func plainRecords(m *schema.Message, runID int) ([]bridge.Record, error) {
	row, ok := rowOfMessage(m.Type)
	if !ok {
		return nil, fmt.Errorf("type %q has no counterpart in the bridge", m.Type)
	}
	content, err := contentOf(m)
	if err != nil {
		return nil, err
	}
	recipients := m.To
	if _, derived := OriginOf(m); derived {
		channel, broadcast, _ := rowOfChannel(m.Channel)
		if channel.documented() {
			row = channel
		}
		if broadcast {
			recipients = []schema.AgentName{""}
		}
		content = derivedContent(m.Body)
	}
	records := make([]bridge.Record, len(recipients))
	for i, to := range recipients {
		records[i] = bridge.Record{
			ID: bridge.GenerateID(row.Record, string(m.From), string(to), content), RunID: runID,
			Type: row.Record, Signal: row.Signal, From: string(m.From), To: string(to),
			Content: content, Timestamp: string(m.CreatedAt),
		}
	}
	return records, nil
}

// contentOf returns the content of a message's records.
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

// structuredText renders a structured body as canonical YAML, or as JSON if a message file with that would be too
// large.
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

// firstLine returns the first line of a text that is not blank as a subject: without outer white space and control
// characters, and cut at the length of a subject. It is empty for a blank text.
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

// carry returns the metadata that takes a message through the bridge; Carried reads it.
func carry(m *schema.Message) (json.RawMessage, error) {
	text, err := m.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return append(append([]byte(`{"oacp":`), text...), '}'), nil
}
