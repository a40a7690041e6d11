package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// thread reads the conversation of a message. It may be called while the
// Source gathers.
func (s *Source) thread(ctx context.Context, id schema.ID) ([]mailbox.Entry, error) {
	var entries []mailbox.Entry
	var failed error
	for _, w := range s.config.Workspaces {
		found, err := w.Thread(ctx, string(id))
		entries = append(entries, found...)
		if missing := new(mailbox.NotFoundError); !errors.As(err, &missing) {
			failed = errors.Join(failed, err)
		}
	}
	return inOrder(entries), failed
}

// inOrder sorts a conversation as sortMessages does, but puts no message
// before what it answers. That is how it comes, but for the order of messages
// of one second.
func inOrder(entries []mailbox.Entry) []mailbox.Entry {
	type place struct {
		created string
		written time.Time
	}
	compare := func(a, b place) int {
		return cmp.Or(strings.Compare(a.created, b.created), a.written.Compare(b.written))
	}
	places := make(map[schema.ID]place, len(entries))
	for _, e := range entries {
		at := place{string(e.Message.CreatedAt), e.Modified}
		if answered, ok := places[e.Message.ParentID]; ok && compare(at, answered) < 0 {
			at = answered
		}
		places[e.Message.ID] = at
	}
	slices.SortStableFunc(entries, func(a, b mailbox.Entry) int { return compare(places[a.Message.ID], places[b.Message.ID]) })
	return entries
}

// thread is a conversation on the screen.
type thread struct {
	id      schema.ID
	subject string
	entries []mailbox.Entry
	err     error
	// top is the first line that is shown, unless follow keeps the last ones
	// in view.
	top    int
	follow bool
}

// frameLines is how many lines of the screen are not the conversation's.
const frameLines = 3

func (t *thread) move(by, width, height int) {
	last := max(0, len(t.lines(width))-max(1, height-frameLines))
	if t.follow {
		t.top = last
	}
	t.top = max(0, min(t.top+by, last))
	t.follow = t.top == last
}

// window returns the lines that are in view.
func (t *thread) window(width, height int) []line {
	lines := t.lines(width)
	last := max(0, len(lines)-height)
	top := min(t.top, last)
	if t.follow {
		top = last
	}
	return lines[top:min(top+height, len(lines))]
}

// lines lays out the whole conversation.
func (t *thread) lines(width int) []line {
	var lines []line
	if t.err != nil {
		lines = append(lines, wrap(t.err.Error(), width, bold)...)
	}
	for _, e := range t.entries {
		m := e.Message
		if len(lines) > 0 {
			lines = append(lines, line{})
		}
		head := m.CreatedAt.Time().Format(time.DateTime) + "  " + string(m.From) + " -> " + joinNames(m.To) +
			"  " + string(m.Type) + " " + string(m.Priority)
		lines = append(lines, wrap(head, width, bold)...)
		lines = append(lines, wrap(m.Subject, width, bold)...)
		lines = append(lines, wrap(bodyText(m.Body), width, plain)...)
	}
	return lines
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

// wrap escapes a text and breaks its lines at the width.
func wrap(content string, width int, style style) []line {
	var lines []line
	content = strings.ReplaceAll(strings.TrimRight(content, "\n"), "\t", "    ")
	for part := range strings.SplitSeq(visible.Lines(content), "\n") {
		start, used := 0, 0
		for i, r := range part {
			w := text.RuneWidth(r)
			if used+w > width && i > start {
				lines = append(lines, line{part[start:i], style})
				start, used = i, 0
			}
			used += w
		}
		lines = append(lines, line{part[start:], style})
	}
	return lines
}
