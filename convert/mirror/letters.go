package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// deadLetter is a record that cannot be delivered: its message or, if there is none, the JSON of the record, which is
// YAML too.
type deadLetter struct {
	// names are the file names that the letter may have. The first is that of a new one.
	names  []string
	data   []byte
	reason mailbox.DeadLetterReason
}

// messageLetter is the letter of a message that one of its recipients cannot get.
func messageLetter(m *schema.Message, r bridge.Record, reason string) (deadLetter, error) {
	letter := deadLetter{reason: mailbox.DeadLetterReason{Reason: reason, ID: m.ID, From: m.From}}
	for _, id := range append([]schema.ID{m.ID}, convert.EarlierIDs(r, 0)...) {
		named := *m
		named.ID = id
		name, err := named.LongFileName()
		if err != nil {
			return letter, err
		}
		if len(m.To) > 1 {
			name = strings.TrimSuffix(name, schema.FileExtension) + "_" + r.To + schema.FileExtension
		}
		letter.names = append(letter.names, name)
	}
	var err error
	letter.data, err = schema.Encode(m)
	if errors.Is(err, schema.ErrSigned) {
		letter.data, err = json.Marshal(m)
	}
	return letter, err
}

// recordLetter is the letter of a record that cannot become a message. Content that is too long for a message file is
// cut: the log has all of it.
func recordLetter(r bridge.Record, reason string) (deadLetter, error) {
	data, err := r.Encode()
	if err == nil && len(data) > schema.MaxFileSize/2 {
		short := bridge.Record{ID: cut(r.ID), RunID: r.RunID, From: cut(r.From), To: cut(r.To), Content: cut(r.Content)}
		data, err = short.Encode()
		reason += "; the record is cut here and whole in the log"
	}
	letter := deadLetter{
		names: []string{"bridge_x" + convert.Fingerprint(r) + schema.FileExtension},
		data:  append(data, '\n'), reason: mailbox.DeadLetterReason{Reason: reason},
	}
	if sender := schema.AgentName(r.From); sender.Valid() {
		letter.reason.From = sender
	}
	return letter, err
}

func cut(text string) string {
	if len(text) <= schema.MaxBody {
		return text
	}
	return strings.ToValidUTF8(text[:schema.MaxBody], "") + "…"
}

// write adds a dead letter to its sender's or, if the workspace does not know the sender, to the mirror's. It reports
// whether the letter was there, and writes the reason first.
func (l deadLetter) write(w *mailbox.Workspace) (path string, there bool, err error) {
	folder, makeFolder := lettersName, w.MakeStateFolder
	if from := l.reason.From; w.Knows(from) {
		folder, makeFolder = mailbox.BoxName(from, mailbox.DeadLetters), w.MakeFolder
	}
	for _, place := range []string{lettersName, folder} {
		for _, name := range l.names {
			path = place + "/" + name
			if _, err := w.Root().Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
				return filepath.Join(w.Dir(), path), err == nil, err
			}
		}
	}
	if err := makeFolder(folder); err != nil {
		return "", false, err
	}
	l.reason.At = schema.NewTimestamp(time.Now())
	reason, err := json.MarshalIndent(l.reason, "", "  ")
	if err != nil {
		return "", false, fmt.Errorf("reason of %s: %w", path, err)
	}
	path = filepath.Join(w.Dir(), folder, l.names[0])
	if err := durable.Replace(path+".reason.json", append(reason, '\n'), 0o644); err != nil {
		return "", false, err
	}
	return path, false, durable.Replace(path, l.data, 0o644)
}
