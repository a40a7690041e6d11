package mcpserver

import (
	"encoding/json"
	"slices"
)

// batchOfCalls collects the answers of calls that came in one line.
type batchOfCalls struct {
	missing int
	answers []json.RawMessage
}

// allowsBatches reports whether the version in an answer to initialize is one of those that allow batches.
func allowsBatches(result json.RawMessage) bool {
	var agreed struct {
		Version string `json:"protocolVersion"`
	}
	err := json.Unmarshal(result, &agreed)
	return err == nil && slices.Contains([]string{"2024-11-05", "2025-03-26"}, agreed.Version)
}

// hasBatches reports whether a client may send batches.
func (s *stream) hasBatches() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches
}

// complete puts an answer to its batch, which is written when none is missing.
func (s *stream) complete(batch *batchOfCalls, answer json.RawMessage) error {
	if batch == nil {
		return nil
	}
	s.mu.Lock()
	if answer != nil {
		batch.answers = append(batch.answers, answer)
	}
	batch.missing--
	whole := batch.missing == 0 && len(batch.answers) > 0
	s.mu.Unlock()
	if !whole {
		return nil
	}
	answers, err := json.Marshal(batch.answers)
	if err != nil {
		return err
	}
	return s.write(answers)
}
