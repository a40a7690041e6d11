package mirror

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// foreignFiles are the files of an outbox whose names do not tell which message they hold. Each is
// read once.
type foreignFiles struct {
	round  int // in which the outbox was listed
	known  map[string]bool
	copies map[schema.ID][]outboxCopy
}

// outboxCopy is a message in an outbox.
type outboxCopy struct {
	id    schema.ID
	words sentMessage
	to    []schema.AgentName
}

// sentTo returns to whom the message was sent, nil if it was not. Taken reports whether there is a
// message with its id.
func (d *deliverer) sentTo(ctx context.Context, m *schema.Message) (to []schema.AgentName, taken bool, err error) {
	copies, err := d.findCopies(ctx, m)
	if err != nil {
		return nil, false, err
	}
	words, err := wordsOf(m)
	for _, c := range copies {
		if c.words == words {
			to = slices.Concat(to, c.to)
		}
	}
	return to, len(copies) > 0, err
}

// findCopies returns the copies that have the message's id. It finds them by name, so that the size
// of an outbox does not matter.
func (d *deliverer) findCopies(ctx context.Context, m *schema.Message) (copies []outboxCopy, err error) {
	names := []string{m.FileName()}
	if long, err := m.LongFileName(); err == nil {
		names = append(names, long)
	}
	for _, name := range names {
		there, err := d.read(m.From, name)
		if err != nil {
			return nil, err
		}
		if there != nil && there.id == m.ID {
			copies = append(copies, *there)
		}
	}
	if _, derived := convert.OriginOf(m); derived || len(copies) > 0 {
		return copies, nil // only a mirror sends derived messages, under their long names
	}
	return d.findForeign(ctx, m)
}

// findForeign returns the copies in files that other tools named.
func (d *deliverer) findForeign(ctx context.Context, m *schema.Message) ([]outboxCopy, error) {
	files := d.foreign[m.From]
	if files == nil {
		files = &foreignFiles{round: -1, known: make(map[string]bool), copies: make(map[schema.ID][]outboxCopy)}
		d.foreign[m.From] = files
	}
	if files.round == d.round {
		return files.copies[m.ID], nil
	}
	names, err := durable.ListFolder(d.workspace.Root(), d.workspace.Dir(), schema.BoxPath(m.From, mailbox.Outbox))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		if files.known[name] || !schema.IsMessageFile(name) || isOurs(name) {
			continue
		}
		there, err := d.read(m.From, name)
		if err := errors.Join(context.Cause(ctx), err); err != nil {
			return nil, err
		}
		files.known[name] = true
		if there != nil {
			files.copies[there.id] = append(files.copies[there.id], *there)
		}
	}
	files.round = d.round
	return files.copies[m.ID], nil
}

// read returns the message in a file of an outbox; nil if there is none.
func (d *deliverer) read(agent schema.AgentName, name string) (*outboxCopy, error) {
	data, err := d.workspace.ReadRaw(mailbox.Entry{Agent: agent, Box: mailbox.Outbox, Name: name})
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
	return &outboxCopy{m.ID, words, m.To}, err
}

// isOurs reports whether a file is named as the workspace itself names it, by a time to the minute.
// It is called for every file of an outbox, so it does not parse the name any further.
func isOurs(name string) bool {
	const minute = "20060102T1504Z"
	return len(name) > len(minute) && name[8] == 'T' && name[len(minute)-1] == 'Z' && name[len(minute)] == '_'
}
