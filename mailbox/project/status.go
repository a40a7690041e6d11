package project

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Values of status in a status file.
const (
	Available = "available"
	Busy      = "busy"
)

// MaxStatus is the size of the largest status file that is valid, in bytes.
const MaxStatus = 64 << 10

// A Word is what a status file says about an agent. Its time is zero if the file is not valid.
type Word struct {
	Status, Task string
	At           time.Time
}

// ParseStatus returns what a status file says.
func ParseStatus(status []byte) Word {
	var fields struct {
		Status    string `yaml:"status"`
		Task      string `yaml:"current_task"`
		UpdatedAt string `yaml:"updated_at"`
	}
	if len(status) > MaxStatus || yaml.Unmarshal(status, &fields) != nil {
		return Word{}
	}
	at, _ := time.Parse(time.RFC3339, fields.UpdatedAt)
	return Word{fields.Status, fields.Task, at}
}

// LaterStatus returns the status file that was written later. If both have the same time, it returns the one with the
// greater bytes, so that all machines agree. A missing file, and one that is not valid, count as the earliest.
func LaterStatus(a, b []byte) []byte {
	if cmp.Or(ParseStatus(a).At.Compare(ParseStatus(b).At), bytes.Compare(a, b)) < 0 {
		return b
	}
	return a
}

// Status returns the status file of an agent, or nil if there is no valid one. It reports whether the file of another
// machine may replace it. A file that is not valid stays.
func Status(w *mailbox.Workspace, agent schema.AgentName) (data []byte, mayReplace bool) {
	data, err := durable.ReadFile(w.Root(), w.Dir(), schema.AgentPath(agent, StatusName), MaxStatus)
	if err != nil || ParseStatus(data).At.IsZero() {
		return nil, errors.Is(err, fs.ErrNotExist)
	}
	return data, true
}

// TakeStatus replaces the status file of an agent by that of another machine, unless the agent has written a later one.
func TakeStatus(w *mailbox.Workspace, agent schema.AgentName, status []byte) error {
	return changeStatus(w, agent, func([]byte) ([]byte, error) {
		here, mayReplace := Status(w, agent)
		if !mayReplace || bytes.Equal(LaterStatus(here, status), here) {
			return nil, nil
		}
		return status, nil
	})
}

// SetStatus writes to the status file of an agent what it does now. All other fields, comments and documents stay. A file
// that is not a YAML mapping stays as it is, and is an error. SetStatus always gives the file a later time than it had,
// because the file with the latest time replaces those on other machines.
func SetStatus(w *mailbox.Workspace, agent schema.AgentName, status, task string, now time.Time) error {
	if err := w.CheckAgent(agent); err != nil {
		return err
	}
	return changeStatus(w, agent, func(data []byte) ([]byte, error) {
		changed, err := editStatus(data, status, task, now)
		if err != nil {
			err = fmt.Errorf("editing %s: %w", filepath.Join(w.Dir(), schema.AgentPath(agent, StatusName)), err)
		}
		return changed, err
	})
}

// changeStatus replaces the status file of an agent by what edit returns for it, unless that is nil. One process of this
// machine does so at a time. If another program has changed the file meanwhile, edit gets the new one.
func changeStatus(w *mailbox.Workspace, agent schema.AgentName, edit func(data []byte) ([]byte, error)) error {
	const locks = schema.StateName + "/status"
	dir, err := w.OpenStateFolder(locks)
	if err != nil {
		return err
	}
	name := schema.AgentPath(agent, StatusName)
	read := func() ([]byte, error) {
		data, err := durable.ReadFile(w.Root(), w.Dir(), name, maxFileSize)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return data, err
	}
	err = dir.Locked(context.Background(), string(agent)+".lock", func() error {
		for {
			before, err := read()
			if err != nil {
				return err
			}
			changed, err := edit(before)
			if err != nil || changed == nil {
				return err
			}
			now, err := read()
			if err != nil {
				return err
			}
			if bytes.Equal(now, before) {
				return durable.ReplaceFile(w.Root(), w.Dir(), name, changed, 0o644)
			}
		}
	})
	return errors.Join(err, dir.Close())
}

// editStatus returns a status file with other values.
func editStatus(data []byte, status, task string, now time.Time) ([]byte, error) {
	var documents []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		document := new(yaml.Node)
		err := decoder.Decode(document)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	if len(documents) == 0 {
		documents = []*yaml.Node{{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}}
	}
	if before := ParseStatus(data).At; !now.Truncate(time.Second).After(before) { // in the same second, or by a clock that went back
		now = before.Add(time.Second)
	}
	fields := documents[0].Content[0]
	if fields.Kind != yaml.MappingNode {
		return nil, errors.New("it has no fields")
	}
	setField(fields, "status", status, 0)
	setField(fields, "current_task", task, yaml.DoubleQuotedStyle)
	setField(fields, "updated_at", string(schema.NewTimestamp(now)), yaml.DoubleQuotedStyle)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	var err error
	for _, document := range documents {
		err = errors.Join(err, encoder.Encode(document))
	}
	return out.Bytes(), errors.Join(err, encoder.Close())
}

// setField gives a field of a mapping a text, and keeps its comments.
func setField(fields *yaml.Node, key, value string, style yaml.Style) {
	for i := 0; i+1 < len(fields.Content); i += 2 {
		if at := fields.Content[i+1]; fields.Content[i].Value == key {
			fields.Content[i+1] = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Style: style,
				HeadComment: at.HeadComment, LineComment: at.LineComment, FootComment: at.FootComment}
			return
		}
	}
	fields.Content = append(fields.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key},
		&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Style: style})
}
