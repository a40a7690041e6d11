package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// letters keeps the records that cannot be delivered: as a message where they are one, otherwise as the JSON
// of the record, which is YAML too.
type letters struct {
	workspace *mailbox.Workspace
}

// letter is a dead letter to be written.
type letter struct {
	name   string
	data   []byte
	reason mailbox.DeadLetterReason
}

// messageLetter is the letter of a message that one of its recipients cannot get.
func messageLetter(m *schema.Message, to, reason string) (letter, error) {
	name, err := m.LongFileName()
	if err != nil {
		return letter{}, err
	}
	if len(m.To) > 1 {
		name = strings.TrimSuffix(name, schema.FileExtension) + "_" + to + schema.FileExtension
	}
	data, err := schema.Encode(m)
	if errors.Is(err, schema.ErrSigned) {
		data, err = json.Marshal(m)
	}
	return letter{name, data, mailbox.DeadLetterReason{Reason: reason, ID: m.ID, From: m.From}}, err
}

// recordLetter is the letter of a record that is no message. Content that a message file does not hold is
// cut: all of it stands in the log.
func recordLetter(r bridge.Record, reason string) (letter, error) {
	const most, rest = schema.MaxFileSize / 2, schema.MaxBody
	data, err := r.Encode()
	if err == nil && len(data) > most {
		short := bridge.Record{
			ID: cut(r.ID, rest), RunID: r.RunID, Type: bridge.Type(cut(string(r.Type), rest)), From: cut(r.From, rest), To: cut(r.To, rest),
			Content: cut(r.Content, rest), Signal: bridge.Signal(cut(string(r.Signal), rest)), Timestamp: cut(r.Timestamp, rest),
		}
		data, err = short.Encode()
		reason += "; the record is cut here and whole in the log"
	}
	name, _ := randOf(r, form{part: 1, long: true})
	from := schema.AgentName("")
	if sender := schema.AgentName(r.From); sender.Valid() {
		from = sender
	}
	return letter{"bridge_" + name + schema.FileExtension, append(data, '\n'), mailbox.DeadLetterReason{Reason: reason, From: from}}, err
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// folder returns where the dead letters of a sender stand.
func (l letters) folder(from schema.AgentName) string {
	if l.workspace.Knows(from) {
		return l.workspace.BoxPath(from, mailbox.DeadLetters)
	}
	return filepath.Join(l.workspace.Dir(), lettersName)
}

func (l letters) makeFolder(from schema.AgentName) error {
	if l.workspace.Knows(from) {
		return os.MkdirAll(l.folder(from), 0o755)
	}
	return l.workspace.MakeStateFolder(lettersName)
}

// write puts a letter and its reason in place, the reason first, unless the letter is there: with its sender,
// or where it was put while the sender was unknown.
func (l letters) write(one letter) (path string, there bool, err error) {
	folder := l.folder(one.reason.From)
	for _, folder := range []string{l.folder(""), folder} {
		path = filepath.Join(folder, one.name)
		if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return path, err == nil, err
		}
	}
	if err := l.makeFolder(one.reason.From); err != nil {
		return path, false, err
	}
	one.reason.At = schema.NewTimestamp(time.Now())
	reason, err := json.MarshalIndent(one.reason, "", "  ")
	if err != nil {
		return path, false, fmt.Errorf("reason of %s: %w", path, err)
	}
	if err := durable.Replace(path+".reason.json", append(reason, '\n'), 0o644); err != nil {
		return path, false, err
	}
	return path, false, durable.Replace(path, one.data, 0o644)
}
