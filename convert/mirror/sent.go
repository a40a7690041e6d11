package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// copiedMessage identifies a copy of a message in a mailbox.
type copiedMessage struct {
	id    schema.ID
	words [sha256.Size]byte
	to    []schema.AgentName
}

// wordsOf returns a hash of a message without its recipients, because the copy in a workspace that knows only
// some of the recipients names only those.
func wordsOf(m *schema.Message) ([sha256.Size]byte, error) {
	without := *m
	without.To = nil
	text, err := without.MarshalJSON()
	return sha256.Sum256(text), err
}

// sentTo returns the recipients that the message was sent to, or nil if it was not sent. taken reports
// whether the sender's outbox has a message with the same id.
func (d *deliverer) sentTo(ctx context.Context, m *schema.Message) (to []schema.AgentName, taken bool, err error) {
	words, err := wordsOf(m)
	if err != nil {
		return nil, false, err
	}
	copies, err := d.findNamed(m.From, mailbox.Outbox, m)
	_, derived := convert.OriginOf(m)
	if err == nil && len(copies) == 0 && !derived { // only a mirror sends derived messages, under their long names
		copies, err = d.findForeign(ctx, m)
	}
	for _, c := range copies {
		if c.words == words {
			to = slices.Concat(to, c.to)
		}
	}
	return to, len(copies) > 0, err
}

// hasArrived reports whether one of the agents has the message in a box. It finds messages whose copy in
// the sender's outbox was changed or removed.
func (d *deliverer) hasArrived(m *schema.Message, agents []schema.AgentName) (bool, error) {
	words, err := wordsOf(m)
	if err != nil {
		return false, err
	}
	for _, agent := range agents {
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
			copies, err := d.findNamed(agent, box, m)
			if err != nil {
				return false, err
			}
			if slices.ContainsFunc(copies, func(c copiedMessage) bool { return c.words == words }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// findNamed returns the copies in a box that have the message's id and one of its names. Its cost does not
// depend on the size of the box.
func (d *deliverer) findNamed(agent schema.AgentName, box mailbox.Box, m *schema.Message) (copies []copiedMessage, err error) {
	names := []string{m.FileName()}
	if long, err := m.LongFileName(); err == nil {
		names = append(names, long)
	}
	for _, name := range names {
		there, err := d.read(agent, box, name)
		if err != nil {
			return nil, err
		}
		if there != nil && there.id == m.ID {
			copies = append(copies, *there)
		}
	}
	return copies, nil
}

// findForeign returns the copies in files of the sender's outbox with names that other tools chose. It reads the
// files only once: a recorded message was in its outbox before the records were read.
func (d *deliverer) findForeign(ctx context.Context, m *schema.Message) ([]copiedMessage, error) {
	if copies, known := d.foreign[m.From]; known {
		return copies[m.ID], nil
	}
	names, err := durable.ListFolder(d.workspace.Root(), d.workspace.Dir(), schema.BoxPath(m.From, mailbox.Outbox))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	copies := make(map[schema.ID][]copiedMessage)
	for _, name := range names {
		if !schema.IsMessageFile(name) || isOurs(name) {
			continue
		}
		there, err := d.read(m.From, mailbox.Outbox, name)
		if err := errors.Join(context.Cause(ctx), err); err != nil {
			return nil, err
		}
		if there != nil {
			copies[there.id] = append(copies[there.id], *there)
		}
	}
	d.foreign[m.From] = copies
	return copies[m.ID], nil
}

// read returns the message in a file, or nil if there is none.
func (d *deliverer) read(agent schema.AgentName, box mailbox.Box, name string) (*copiedMessage, error) {
	data, err := mailbox.ReadUnscreened(d.workspace, mailbox.Entry{Agent: agent, Box: box, Name: name})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := validate.Read(data)
	if err != nil {
		return nil, nil // a file that is not valid is not the message
	}
	words, err := wordsOf(m)
	return &copiedMessage{m.ID, words, m.To}, err
}

// isOurs reports whether the workspace itself gives files such a name, so that findNamed finds them.
func isOurs(name string) bool {
	parsed, err := schema.ParseFileName(name)
	return err == nil && parsed.Suffix == "" && strings.HasPrefix(name, parsed.At.Format("20060102T1504Z_"))
}
