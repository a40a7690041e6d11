package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// transcript is the conversation that the screen shows instead of the panes.
type transcript struct {
	// title names it. Of a run's conversation, run is the folder of the run.
	title, run string
	reader     reader

	ready   bool // when it was read
	entries []*entry
	omitted int // the number of older entries that are omitted
	err     error

	// lines are the lines of all entries at the width.
	lines []line
	width int
	// top is the first line in view, unless follow keeps the last ones in view.
	top    int
	follow bool
}

// take replaces the entries.
func (c *transcript) take(r reading) {
	c.ready, c.err = true, r.err
	if !r.changed || r.err != nil && len(r.entries) == 0 {
		return
	}
	c.entries, c.omitted = r.entries, r.omitted
	c.resize(c.width)
}

// resize breaks all entries into lines of the width, with a blank line between them.
func (c *transcript) resize(width int) {
	c.width, c.lines = width, c.lines[:0]
	for i, e := range c.entries {
		if i > 0 {
			c.lines = append(c.lines, line{})
		}
		c.lines = append(c.lines, e.wrap(width)...)
	}
}

// first returns the index of the first line in view.
func (c *transcript) first(height int) int {
	last := max(0, len(c.lines)-height)
	if c.follow {
		return last
	}
	return min(c.top, last)
}

// move scrolls by lines.
func (c *transcript) move(by, height int) {
	last := max(0, len(c.lines)-height)
	c.top = max(0, min(c.first(height)+by, last))
	c.follow = c.top == last
}

// window returns the lines in view.
func (c *transcript) window(height int) []line {
	top := c.first(height)
	return c.lines[top:min(top+height, len(c.lines))]
}

// entry is a message or record in a conversation.
type entry struct {
	head    string // time, sender, recipients and type
	subject string // may be empty
	text    string

	// wrapped are the lines at wrappedWidth.
	wrapped      []line
	wrappedWidth int
}

// size returns roughly how many bytes the entry takes.
func (e *entry) size() int { return len(e.head) + len(e.subject) + len(e.text) + 64 }

// wrap breaks the entry into lines. Only the view calls it.
func (e *entry) wrap(width int) []line {
	if e.wrapped == nil || e.wrappedWidth != width {
		e.wrapped, e.wrappedWidth = wrap(e.head, width, bold), width
		if e.subject != "" {
			e.wrapped = append(e.wrapped, wrap(e.subject, width, bold)...)
		}
		if e.text != "" {
			e.wrapped = append(e.wrapped, wrap(e.text, width, plain)...)
		}
	}
	return e.wrapped
}

// Bounds of a conversation and of one entry's text.
const (
	maxEntries = 5000
	maxSize    = 32 << 20
	maxText    = 256 << 10
)

// backlog is the latest entries of a conversation.
type backlog struct {
	entries []*entry
	size    int
	omitted int // the number of older entries
}

func (b *backlog) add(e *entry) {
	if len(e.text) > maxText {
		kept := strings.ToValidUTF8(e.text[:maxText], "")
		e.text = fmt.Sprintf("%s\n(%d more bytes)", kept, len(e.text)-len(kept))
	}
	b.entries = append(b.entries, e)
	b.size += e.size()
	for len(b.entries) > maxEntries || b.size > maxSize && len(b.entries) > 1 {
		b.size -= b.entries[0].size()
		b.entries[0] = nil
		b.entries = b.entries[1:]
		b.omitted++
	}
}

// A reader reads a conversation, again if it may have grown since the last snapshot. Its calls do not overlap.
type reader interface {
	read(ctx context.Context, now Snapshot) reading
}

// reading is the content of a conversation.
type reading struct {
	// changed is false if nothing has changed since the last reading. Then only err counts.
	changed bool
	entries []*entry // the oldest first
	omitted int      // the number of older entries
	// related are the ids of messages and conversations that a message of this conversation may
	// have or refer to.
	err error
}

// messageReader reads the conversation of a message.
type messageReader struct {
	workspaces []*mailbox.Workspace
	id         schema.ID
	zone       *time.Location // of the times
	// seen are the messages of the snapshot by which it was read.
	seen []Message
}

func (r *messageReader) read(ctx context.Context, now Snapshot) reading {
	messages := now.messages(target{})
	if r.seen != nil && reflect.DeepEqual(r.seen, messages) {
		return reading{}
	}
	r.seen = messages
	nodes, err := r.thread(ctx)
	var held backlog
	for _, n := range nodes {
		m, problem := n.Message, ""
		if n.Err != nil {
			m, problem = command.Preview(&n.Entry), "  not valid: "+n.Err.Error()
		}
		held.add(&entry{
			subject: m.Subject, text: bodyText(m.Body),
			head: m.CreatedAt.Time().In(r.zone).Format(time.DateTime) + "  " + string(m.From) + " -> " + joinNames(m.To) +
				"  " + string(m.Type) + " " + string(m.Priority) + "  " + string(n.Stage()) + problem,
		})
	}
	return reading{changed: true, entries: held.entries, omitted: held.omitted, err: err}
}

// thread returns the messages of the conversation from the first workspace that has it. They are in
// the order of time, not of the tree: what is new comes last, where the view follows it.
func (r *messageReader) thread(ctx context.Context) ([]track.Node, error) {
	for _, w := range r.workspaces {
		nodes, err := track.Thread(ctx, w, string(r.id))
		if missing := new(mailbox.NotFoundError); !errors.As(err, &missing) {
			conversation.Sort(nodes, func(n track.Node) *schema.Message { return n.Message })
			return nodes, err
		}
	}
	return nil, nil
}

// bodyText returns a body as text, a structured one as JSON.
func bodyText(body schema.Value) string {
	if len(body.Pairs) == 0 {
		return body.Text
	}
	data, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// logReader reads each record of a run's bridge log once.
type logReader struct {
	run    bridge.Run
	zone   *time.Location // of the times
	mark   fileMark       // of the log when it was read to its end
	cursor bridge.Cursor
	line   int // the last line that was read
	held   backlog
}

func (r *logReader) read(ctx context.Context, _ Snapshot) reading {
	now := markOf(r.run.BridgePath())
	if now == r.mark && now != (fileMark{}) {
		return reading{}
	}
	err := r.readOn(ctx)
	if errors.Is(err, bridge.ErrUnknownCursor) { // the log was replaced
		*r = logReader{run: r.run, zone: r.zone}
		err = r.readOn(ctx)
	}
	if err == nil {
		r.mark = now
	}
	return reading{changed: true, entries: slices.Clone(r.held.entries), omitted: r.held.omitted, err: err}
}

// readOn reads the new records.
func (r *logReader) readOn(ctx context.Context) (err error) {
	log, err := r.run.Open(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	for e, err := range log.Records(ctx, r.cursor) {
		var bad *bridge.LineError
		switch {
		case errors.As(err, &bad):
			if bad.Line > r.line { // bad lines at the end are read again
				r.line = bad.Line
				r.held.add(&entry{head: fmt.Sprintf("line %d is not a record: %v", bad.Line, bad.Err)})
			}
		case err != nil:
			return err
		default:
			r.cursor, r.line = e.Cursor(), e.Line
			r.held.add(&entry{head: recordHead(e.Record, r.zone), text: e.Content})
		}
	}
	return nil
}

// recordHead returns the time, sender, recipient and type of a record.
func recordHead(r bridge.Record, zone *time.Location) string {
	at := r.Timestamp
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		at = t.In(zone).Format(time.DateTime)
	}
	head := strings.TrimSpace(at + "  " + r.From + " -> " + cmp.Or(r.To, "all") + "  " + string(r.Type) + " " + string(r.Signal))
	if r.Iteration > 0 {
		head += fmt.Sprintf("  iteration %d", r.Iteration)
	}
	return head
}
