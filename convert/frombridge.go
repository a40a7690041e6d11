package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Warnings that Carried returns besides those of the bridge itself.
var (
	// ErrMetadata reports metadata that carries a message which does not belong to the record.
	ErrMetadata = errors.New("metadata does not fit the record and is ignored")
	// ErrTimestamp reports a timestamp that is not a time.
	ErrTimestamp = errors.New("timestamp is not an RFC 3339 time, the message is dated 1970")
)

// FromBridge returns the message for a record: the one that its metadata carries or else the one
// that Derive makes. A broadcast goes to all agents but its sender; other records ignore agents.
//
// It returns an error if the sender or recipient is not an agent name, if a record is addressed to
// its sender, if a broadcast has no recipient or more than schema.MaxRecipients, or if the content
// is larger than a message file.
func FromBridge(r bridge.Record, agents []schema.AgentName) (*schema.Message, error) {
	if m, _ := Carried(r); m != nil {
		return m, nil
	}
	to, err := Recipients(r, agents)
	if err != nil {
		return nil, err
	}
	if len(to) > schema.MaxRecipients {
		return nil, fmt.Errorf("to: a message has at most %d recipients, and the broadcast %d", schema.MaxRecipients, len(to))
	}
	return Derive(r, to, Variant{})
}

// Carried returns the message that the record's metadata carries, nil if there is none, and what is
// odd about the record. Metadata counts only if ToBridge makes the record of the message in it.
func Carried(r bridge.Record) (m *schema.Message, warnings []error) {
	warnings = r.Warnings()
	m, err := readMetadata(r)
	if err != nil {
		warnings = append(warnings, err)
	}
	if _, ok := timeOf(r.Timestamp); !ok && m == nil {
		warnings = append(warnings, fmt.Errorf("%w: %.40q", ErrTimestamp, r.Timestamp))
	}
	return m, warnings
}

// readMetadata returns the message in the record's metadata; nil if there is none, with an error if
// there is one that does not belong to the record.
func readMetadata(r bridge.Record) (*schema.Message, error) {
	var metadata struct {
		OACP json.RawMessage `json:"oacp"`
	}
	// There may be no metadata, and other tools may put anything into it.
	if json.Unmarshal(r.Metadata, &metadata) != nil || metadata.OACP == nil {
		return nil, nil
	}
	var m schema.Message
	err := json.Unmarshal(metadata.OACP, &m)
	if err == nil {
		err = validate.Message(&m).Err()
	}
	var records []bridge.Record
	if err == nil {
		records, err = plainRecords(&m, r.RunID)
	}
	if err == nil && !slices.ContainsFunc(records, func(made bridge.Record) bool { return isRecordOf(r, made, &m) }) {
		err = fmt.Errorf("message %s says something else", m.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMetadata, err)
	}
	return &m, nil
}

// isRecordOf reports whether the record agrees with the one made of the message, but for lines that
// idLine added.
func isRecordOf(r, made bridge.Record, m *schema.Message) bool {
	// Earlier versions kept an undocumented type when they copied a record.
	channel, _, _ := rowOfChannel(m.Channel)
	sameType := made.Type == r.Type && made.Signal == r.Signal || channel.Channel != "" && !channel.documented()
	if !sameType || made.From != r.From || made.To != r.To {
		return false
	}
	content := withoutIDLines(r.Content, m.ID)
	return made.Content == r.Content || made.Content == content || withoutIDLines(made.Content, m.ID) == content
}

func withoutIDLines(content string, id schema.ID) string {
	for {
		shorter, ok := strings.CutSuffix(content, idLine(id))
		if !ok {
			return content
		}
		content = shorter
	}
}

// Recipients returns the recipients of a record: the one it names or, for a broadcast, all agents
// but its sender. It returns an error if there is none.
func Recipients(r bridge.Record, agents []schema.AgentName) ([]schema.AgentName, error) {
	if r.To != "" {
		to, err := schema.ParseAgentName(r.To)
		if err == nil && r.To == r.From {
			err = fmt.Errorf("%q is the sender", to)
		}
		if err != nil {
			return nil, fmt.Errorf("to: %w", err)
		}
		return []schema.AgentName{to}, nil
	}
	to := slices.DeleteFunc(slices.Clone(agents), func(agent schema.AgentName) bool { return string(agent) == r.From })
	if len(to) == 0 {
		return nil, errors.New("to: a broadcast, but there is no other agent")
	}
	return to, nil
}
