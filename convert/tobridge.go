package convert

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// ToBridge returns the records of a valid message, one for each recipient in the order of To.
//
//   - The content is the body, preceded by the subject and a blank line unless the subject is the body's
//     first line. A structured body is canonical YAML.
//   - The metadata has the message under the key oacp and, if it is signed, the text of its file under
//     oacp_file.
//   - The id is the documented one. A log replaces the run id 0 with its own.
//
// A derived message gives one record, which says the same as the record that the message was derived
// from, even if that was a broadcast.
//
// The error is a *validate.InvalidError if the message is not valid.
func ToBridge(m *schema.Message, runID int) ([]bridge.Record, error) {
	if err := validate.Message(m).Err(); err != nil {
		return nil, err
	}
	text, err := m.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("message %s: %w", m.ID, err)
	}
	metadata := slices.Concat([]byte(`{"oacp":`), text, []byte("}"))
	if m.Auth != "" && m.File != "" {
		file, err := schema.TextValue(m.File).MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("message %s: %w", m.ID, err)
		}
		metadata = slices.Concat(metadata[:len(metadata)-1], []byte(`,"oacp_file":`), file, []byte("}"))
	}
	records := plainRecords(m, runID)
	for i := range records {
		records[i].Metadata = metadata
	}
	return records, nil
}

// plainRecords returns the records of a valid message without metadata.
func plainRecords(m *schema.Message, runID int) []bridge.Record {
	row, _ := findRow(func(row Row) bool { return row.Channel == "" && row.Message == m.Type })
	content := contentOf(m)
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
	return records
}

func contentOf(m *schema.Message) string {
	text := m.BodyText()
	if m.Subject == firstLine(text) {
		return text
	}
	return m.Subject + "\n\n" + text
}

// firstLine returns the first line that is not blank in the form of a subject: without surrounding white
// space and control characters, and cut to the length of a subject. It is empty for a blank text.
func firstLine(text string) string {
	text = strings.TrimSpace(text)
	if end := strings.IndexAny(text, "\r\n"); end >= 0 {
		text = text[:end]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, visible.Cut(text, schema.MaxSubject))
	return strings.TrimSpace(text)
}

// Missing returns the records of the message that a log lacks, and how many it has. The function find
// returns the entries of the log that have an id. If the id of a record belongs to another message, the
// record's content gets a last line "OACP-Id: <message id>" and so another id.
func Missing(m *schema.Message, find func(id string) ([]bridge.Entry, error)) (missing []bridge.Record, found int, err error) {
	records, err := ToBridge(m, 0)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range records {
		for {
			others, err := find(r.ID)
			if err != nil {
				return nil, 0, err
			}
			if slices.ContainsFunc(others, func(e bridge.Entry) bool { return Carries(e.Record, m) }) {
				found++
				break
			}
			if len(others) == 0 {
				missing = append(missing, r)
				break
			}
			r.Content += idLine(m.ID)
			r.ID = bridge.GenerateID(r.Type, r.From, r.To, r.Content)
		}
	}
	return missing, found, nil
}

// Carries reports whether the record carries the message in its metadata. A record that carries one of the
// messages derived from a broadcast carries all of them.
func Carries(r bridge.Record, m *schema.Message) bool {
	carried, _ := Carried(r)
	if carried == nil {
		return false
	}
	if carried.ID == m.ID {
		return true
	}
	origin, derived := OriginOf(m)
	other, otherDerived := OriginOf(carried)
	return derived && otherDerived && origin == other
}

// Records returns the records that an empty log lacks of the messages; see [Missing]. It returns an error
// for each invalid message, which has no records.
func Records(messages []*schema.Message) (records []bridge.Record, invalid []error) {
	byID := make(map[string][]bridge.Entry)
	find := func(id string) ([]bridge.Entry, error) { return byID[id], nil }
	for _, m := range messages {
		missing, _, err := Missing(m, find)
		if err != nil {
			invalid = append(invalid, fmt.Errorf("message %s: %w", m.ID, err))
		}
		for _, r := range missing {
			byID[r.ID] = []bridge.Entry{{Record: r}}
		}
		records = append(records, missing...)
	}
	return records, invalid
}

// idLine returns the last line that distinguishes the records of messages with the same content.
func idLine(id schema.ID) string { return "\nOACP-Id: " + string(id) }
