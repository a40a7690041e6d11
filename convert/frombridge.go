package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// UndeliverableError says why a record cannot be a message.
type UndeliverableError struct {
	// Field is the record's field that stands in the way, empty where it is no single one.
	Field  string
	Reason string
}

func (e *UndeliverableError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

// What Warnings reports besides what the bridge itself does.
var (
	// ErrMetadata: the metadata carries a message that the record is not one of.
	ErrMetadata = errors.New("metadata does not fit the record, which is taken as it stands")
	// ErrTimestamp: the timestamp is no time, and the message is dated 1970.
	ErrTimestamp = errors.New("timestamp is no RFC 3339 time, the message is dated 1970")
)

// FromBridge returns the message for a record: the one that its metadata carries or, for a record that was
// born in the bridge, the one that [Mapping] and the package's introduction describe. A broadcast goes to
// those agents that are not its sender; other records ignore agents.
//
// Metadata is believed only where the record is one that ToBridge makes of the message in it; what else
// there is to say about a record is told by Warnings.
//
// The error is an *UndeliverableError: a sender or recipient that is no agent name, a record to its own
// sender, a broadcast to nobody or to more than schema.MaxRecipients, content over the size of a message file.
func FromBridge(r bridge.Record, agents []schema.AgentName) (*schema.Message, error) {
	if m, _ := carriedBy(r); m != nil {
		return m, nil
	}
	to, err := recipientsOf(r, agents)
	if err != nil {
		return nil, err
	}
	if len(to) > schema.MaxRecipients {
		return nil, &UndeliverableError{"to", fmt.Sprintf("a message has at most %d recipients, and the broadcast %d", schema.MaxRecipients, len(to))}
	}
	return born(r, to, usual)
}

// Warnings returns what is odd about a record that FromBridge turns into a message all the same: what
// bridge.Record.Warnings tells, ErrMetadata and ErrTimestamp.
func Warnings(r bridge.Record) []error {
	m, err := carriedBy(r)
	return warnings(r, m, err)
}

// warnings is Warnings for what carriedBy returned.
func warnings(r bridge.Record, m *schema.Message, err error) []error {
	found := r.Warnings()
	if err != nil {
		found = append(found, err)
	}
	if _, ok := timeOf(r.Timestamp); !ok && m == nil {
		found = append(found, fmt.Errorf("%w: %.40q", ErrTimestamp, r.Timestamp))
	}
	return found
}

// carriedBy returns the message in the record's metadata; nil where there is none, with an error where there
// is one that is not the record's.
func carriedBy(r bridge.Record) (*schema.Message, error) {
	if len(r.Metadata) == 0 {
		return nil, nil
	}
	var mark struct {
		OACP json.RawMessage `json:"oacp"`
	}
	// Metadata is anything: an array or another tool's object is none of our business.
	if json.Unmarshal(r.Metadata, &mark) != nil || mark.OACP == nil {
		return nil, nil
	}
	var m schema.Message
	if err := json.Unmarshal(mark.OACP, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMetadata, err)
	}
	if err := validate.Message(&m).Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMetadata, err)
	}
	records, err := plainRecords(&m, r.RunID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMetadata, err)
	}
	content := withoutIDLines(r.Content, m.ID)
	for _, made := range records {
		if made.Type == r.Type && made.Signal == r.Signal && made.From == r.From && made.To == r.To &&
			(made.Content == r.Content || made.Content == content || withoutIDLines(made.Content, m.ID) == content) {
			return &m, nil
		}
	}
	return nil, fmt.Errorf("%w: message %s differs from it", ErrMetadata, m.ID)
}

// recipientsOf returns whom a record that was born in the bridge is for.
func recipientsOf(r bridge.Record, agents []schema.AgentName) ([]schema.AgentName, error) {
	if r.To != "" {
		to, err := schema.ParseAgentName(r.To)
		switch {
		case err != nil:
			return nil, &UndeliverableError{"to", err.Error()}
		case r.To == r.From:
			return nil, &UndeliverableError{"to", fmt.Sprintf("%q is the sender", r.To)}
		}
		return []schema.AgentName{to}, nil
	}
	to := slices.DeleteFunc(slices.Clone(agents), func(agent schema.AgentName) bool { return string(agent) == r.From })
	if len(to) == 0 {
		return nil, &UndeliverableError{"to", "a broadcast, and there is no other agent"}
	}
	return to, nil
}
