package dashboard

import (
	"slices"
	"sort"

	"github.com/oacp-go/oacp/schema"
)

// conversation is the conversation that the screen shows instead of the panes.
type conversation struct {
	// title names it. Of a run's conversation, run is the folder of the run.
	title, run string
	reader     reader
	// reading is true while the reader reads; again, if it must read once more after that.
	reading, again bool

	ready   bool // it was read
	entries []*entry
	omitted int // the number of older entries that are not among them
	related map[string]bool
	err     error

	// lines are the lines of all entries at the width, and starts the index of each entry's first one.
	lines  []line
	starts []int
	width  int
	// top is the first line in view, unless follow keeps the last ones in view.
	top    int
	follow bool
}

// take replaces the entries. The entry at the top of the screen stays there.
func (c *conversation) take(r reading) {
	c.ready, c.err = true, r.err
	if !r.changed || r.err != nil && len(r.entries) == 0 {
		return
	}
	i, offset := c.topEntry()
	if i >= 0 {
		id := c.entries[i].id
		i = slices.IndexFunc(r.entries, func(e *entry) bool { return e.id == id })
	}
	c.entries, c.omitted, c.related = r.entries, r.omitted, r.related
	c.layOut(i, offset)
}

// resize breaks the entries into lines for another width.
func (c *conversation) resize(width int) {
	i, offset := c.topEntry()
	c.width = width
	c.layOut(i, offset)
}

// topEntry returns the index of the entry at the top of the screen, -1 if there is none, and the
// number of its lines above the screen.
func (c *conversation) topEntry() (i, offset int) {
	i = sort.SearchInts(c.starts, c.top+1) - 1
	if i < 0 {
		return -1, 0
	}
	return i, c.top - c.starts[i]
}

// layOut breaks all entries into lines, with a blank line between them, and puts a line of entry i at
// the top of the screen, or the first line if i is negative.
func (c *conversation) layOut(i, offset int) {
	c.lines, c.starts, c.top = c.lines[:0], c.starts[:0], 0
	for j, e := range c.entries {
		c.starts = append(c.starts, len(c.lines))
		if j > 0 {
			c.lines = append(c.lines, line{})
		}
		c.lines = append(c.lines, e.wrap(c.width)...)
	}
	if i >= 0 {
		end := len(c.lines)
		if i+1 < len(c.starts) {
			end = c.starts[i+1]
		}
		c.top = min(c.starts[i]+offset, end-1)
	}
}

// concerns reports whether messages have come that belong to the conversation.
func (c *conversation) concerns(before, now []Message) bool {
	if c.run != "" {
		return false // the log is read in intervals
	}
	known := make(map[schema.ID]bool, len(before))
	for _, m := range before {
		known[m.ID] = true
	}
	gap := len(before) > 0 // true if so many have come that some may not be listed any more
	related := false
	for _, m := range now {
		switch {
		case known[m.ID]:
			gap = false
		case !c.ready || c.related[string(m.ID)] || c.related[string(m.parent)] || c.related[string(m.ConversationID)]:
			related = true
		}
	}
	return related || gap
}

// first returns the index of the first line in view.
func (c *conversation) first(height int) int {
	last := max(0, len(c.lines)-height)
	if c.follow {
		return last
	}
	return min(c.top, last)
}

// move scrolls by lines.
func (c *conversation) move(by, height int) {
	last := max(0, len(c.lines)-height)
	c.top = max(0, min(c.first(height)+by, last))
	c.follow = c.top == last
}

// window returns the lines in view.
func (c *conversation) window(height int) []line {
	top := c.first(height)
	return c.lines[top:min(top+height, len(c.lines))]
}
