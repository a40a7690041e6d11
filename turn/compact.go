package turn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/oacp-go/oacp/internal/durable"
)

// compact writes the journal anew if it has grown large: a line for each
// message that matters still. The old one is kept beside it, in place of the
// one before.
func (j *journal) compact() error {
	if j.read.Load() < j.compactAt {
		return nil
	}
	j.access <- struct{}{}
	defer func() { <-j.access }()
	j.compactAt = j.read.Load() + compactAbove // if it fails, not at once again
	return j.locked(func() error {
		if err := j.upToDate(); err != nil {
			return err
		}
		lines, err := j.snapshot()
		if err != nil {
			return fmt.Errorf("writing %s anew: %w", j.path, err)
		}
		return errors.Join(j.replace(lines), j.readAnew())
	})
}

func (j *journal) snapshot() ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, f := range j.history.snapshots(j.now().UTC()) {
		if err := encoder.Encode(&f); err != nil {
			return nil, err
		}
	}
	return lines.Bytes(), nil
}

// replace puts other lines in the place of the journal's, which are kept
// beside it. The file is closed first: some systems replace no open file.
func (j *journal) replace(lines []byte) error {
	old, err := os.ReadFile(j.path)
	if err == nil {
		err = durable.Replace(j.path+".old", old, 0o644)
	}
	if err == nil {
		err = j.file.Close()
	}
	if err == nil {
		err = durable.Replace(j.path, lines, 0o644)
	}
	return err
}
