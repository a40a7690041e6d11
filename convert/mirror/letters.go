package mirror

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// deadLetter is a record that cannot be delivered: its message or, if there is none, the JSON of the
// record, which is also YAML.
type deadLetter struct {
	name   string
	data   []byte
	reason mailbox.DeadLetterReason
}

// newLetter returns the letter for a message that a recipient cannot get or, if m is nil, for a record
// that cannot become a message.
func newLetter(m *schema.Message, r bridge.Record, reason string) (letter deadLetter, err error) {
	letter.reason.Reason = reason
	if m == nil {
		return letter, letter.setRecord(r)
	}
	letter.reason.ID, letter.reason.From = m.ID, m.From
	if letter.name, err = m.LongFileName(); err != nil {
		return letter, err
	}
	if len(m.To) > 1 {
		letter.name = strings.TrimSuffix(letter.name, schema.FileExtension) + "_" + r.To + schema.FileExtension
	}
	letter.data, err = schema.Encode(m)
	if errors.Is(err, schema.ErrSigned) {
		letter.data, err = json.Marshal(m)
	}
	return letter, err
}

// setRecord puts a record into the letter, truncated to half the size of a message file. The log has all
// of it.
func (l *deadLetter) setRecord(r bridge.Record) error {
	data, err := r.Encode()
	if len(data) > schema.MaxFileSize/2 {
		data = []byte(strings.ToValidUTF8(string(data[:schema.MaxFileSize/2]), "") + "…")
		l.reason.Reason += "; the record is truncated here and complete in the log"
	}
	l.name = "bridge_x" + convert.Fingerprint(r) + schema.FileExtension
	l.data = append(data, '\n')
	if sender := schema.AgentName(r.From); sender.Valid() {
		l.reason.From = sender
	}
	return err
}

// write adds the letter to the sender's dead letters or, if the workspace does not know the sender,
// to those of the mirror. It writes the reason first. added reports whether the letter is new.
func (l deadLetter) write(w *mailbox.Workspace) (path string, added bool, err error) {
	folder, makeFolder := lettersName, w.MakeStateFolder
	if from := l.reason.From; w.Knows(from) {
		// The letter may be from before the sender got a mailbox.
		if _, err := w.Root().Lstat(lettersName + "/" + l.name); !errors.Is(err, fs.ErrNotExist) {
			return "", false, err
		}
		folder, makeFolder = schema.BoxPath(from, mailbox.DeadLetters), w.MakeFolder
	}
	if err := makeFolder(folder); err != nil {
		return "", false, err
	}
	l.reason.At = schema.NewTimestamp(time.Now())
	reason, err := json.MarshalIndent(l.reason, "", "  ")
	if err != nil {
		return "", false, err
	}
	name := folder + "/" + l.name
	if _, err := w.AddFile(name+mailbox.ReasonSuffix, append(reason, '\n')); err != nil {
		return "", false, err
	}
	added, err = w.AddFile(name, l.data)
	return filepath.Join(w.Dir(), filepath.FromSlash(name)), added, err
}
