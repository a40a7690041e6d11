package convert

import (
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

// Lookup returns the entries of a log that have an id.
type Lookup func(id string) ([]bridge.Entry, error)

// Missing returns the records of the message that a log lacks, and how many it has. The content of a record whose
// id belongs to another message gets a last line "OACP-Id: <message id>", which gives the record an id of its own.
func Missing(m *schema.Message, find Lookup) (missing []bridge.Record, found int, err error) {
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

// Carries reports whether the record carries the message in its metadata. A record that carries one message of a
// broadcast carries the others too.
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

// Records returns the records of the messages, each once, as they would stand in a log that was empty before. The
// errors are about messages that are not valid; their records are left out.
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

// idLine is the last line that makes the content of one message's record distinct from another's.
func idLine(id schema.ID) string { return "\nOACP-Id: " + string(id) }
