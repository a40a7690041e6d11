package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// transcript is the conversation of a run or message, which the screen shows instead of the panes.
type transcript struct {
	title string
	of    target

	ready   bool // it was read
	entries []entry
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
	if r.err != nil && len(r.entries) == 0 || slices.Equal(c.entries, r.entries) {
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
		c.lines = append(c.lines, wrap(e.head, width, bold)...)
		if e.subject != "" {
			c.lines = append(c.lines, wrap(e.subject, width, bold)...)
		}
		if e.text != "" {
			c.lines = append(c.lines, wrap(e.text, width, plain)...)
		}
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
}

// reading is the content of a conversation: the latest entries, the oldest of them first.
type reading struct {
	entries []entry
	omitted int // the number of older entries
	err     error
}

const (
	// maxEntries bounds the entries of a conversation that are shown.
	maxEntries = 1000
	// maxText bounds the text of an entry, in bytes.
	maxText = 32 << 10
)

func (r *reading) add(e entry) {
	if len(e.text) > maxText {
		kept := strings.ToValidUTF8(e.text[:maxText], "")
		e.text = fmt.Sprintf("%s\n(%d more bytes)", kept, len(e.text)-len(kept))
	}
	r.entries = append(r.entries, e)
	if more := len(r.entries) - maxEntries; more > 0 {
		r.entries = r.entries[more:]
		r.omitted += more
	}
}

// read reads the conversation of a run or message.
func (s *source) read(ctx context.Context, of target) (r reading) {
	if of.message != "" {
		r.err = s.readThread(ctx, of.message, &r)
	} else {
		r.err = s.readLog(ctx, of.run, &r)
	}
	return r
}

// readThread reads the conversation of a message from the first workspace that has it. It sorts messages by time,
// not by the tree: what is new comes last, where the view follows it.
func (s *source) readThread(ctx context.Context, id schema.ID, r *reading) error {
	for _, w := range s.Workspaces {
		nodes, err := track.Thread(ctx, w, string(id))
		if _, missing := errors.AsType[*mailbox.NotFoundError](err); missing {
			continue
		}
		conversation.Sort(nodes, func(n track.Node) *schema.Message { return n.Message })
		for _, n := range nodes {
			m, problem := n.Message, ""
			if n.Err != nil {
				m, problem = command.Preview(&n.Entry), "  not valid: "+n.Err.Error()
			}
			r.add(entry{
				subject: m.Subject, text: m.BodyText(),
				head: m.CreatedAt.Time().In(s.Zone).Format(time.DateTime) + "  " + string(m.From) + " -> " + spelling.Join(m.To) +
					"  " + string(m.Type) + " " + string(m.Priority) + "  " + string(n.Stage()) + problem,
			})
		}
		return err
	}
	return nil
}

// readLog reads the bridge log of a run.
func (s *source) readLog(ctx context.Context, run bridge.Run, r *reading) (err error) {
	log, err := run.Open(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	for e, err := range log.Records(ctx, "") {
		bad, isBad := errors.AsType[*bridge.LineError](err)
		switch {
		case isBad:
			r.add(entry{head: fmt.Sprintf("line %d is not a record: %v", bad.Line, bad.Err)})
		case err != nil:
			return err
		default:
			r.add(entry{head: recordHead(e.Record, s.Zone), text: e.Content})
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
