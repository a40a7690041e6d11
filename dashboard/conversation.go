package dashboard

import (
	"slices"

	"github.com/oacp-go/oacp/schema"
)

// conversation is one on the screen, instead of the panes. What it costs to
// show it or to scroll follows the size of the screen, not its own: entries
// are broken into lines when they come into view.
type conversation struct {
	// title names it. Of one in a run's bridge log, run is the run's folder.
	title, run string
	reader     reader
	// Reading is under way, and due once more behind that.
	reading, again bool
	// arrived are the messages that are to be read, unless what has come is
	// unknown.
	arrived []Message
	unknown bool

	entries []*entry
	omitted int // how many older ones are not among them
	ties    map[tie]bool
	ready   bool // it was read
	err     error

	// top is the first line in view, unless follow keeps the last ones there.
	top    place
	follow bool
	// wrapped are the lines of entries at the width.
	wrapped map[*entry][]line
	lines   int // in wrapped
	width   int
}

// place is a line of an entry, by their positions.
type place struct{ entry, line int }

func (p place) before(q place) bool {
	return p.entry < q.entry || p.entry == q.entry && p.line < q.line
}

// mostWrapped is how many lines are kept besides those of the entry that was
// broken into lines last.
const mostWrapped = 1 << 19

// take takes what was read. What is in view stays there.
func (c *conversation) take(r reading) {
	c.ready, c.err = true, r.err
	if !r.changed || r.err != nil && len(r.entries) == 0 {
		return
	}
	at := -1
	if len(c.entries) > 0 {
		id := c.entries[c.top.entry].id
		at = slices.IndexFunc(r.entries, func(e *entry) bool { return e.id == id })
	}
	if c.top.entry = at; at < 0 {
		c.top = place{}
	}
	c.entries, c.omitted, c.ties = r.entries, r.omitted, r.ties
	c.resize(c.width)
}

// expect takes note of the messages that have come and belong to it, and
// reports whether it is to be read.
func (c *conversation) expect(before, now []Message) bool {
	if c.run != "" {
		return false // it is looked at anyway
	}
	known := make(map[schema.ID]bool, len(before))
	for _, m := range before {
		known[m.ID] = true
	}
	continues, some := len(before) == 0, false
	for _, m := range now {
		switch {
		case known[m.ID]:
			continues = true
		case !c.ready || m.tiedBy(c.ties):
			c.arrived, some = append(c.arrived, m), true
		}
	}
	// So many may have come that none of those before is listed any more.
	c.unknown = c.unknown || !c.ready || !continues
	return some || !continues
}

// due returns which messages are to be read, or nil where that is unknown.
func (c *conversation) due() []Message {
	due := c.arrived
	if c.unknown {
		due = nil
	}
	c.arrived, c.unknown = nil, false
	return due
}

// resize has the entries broken into lines anew.
func (c *conversation) resize(width int) {
	c.width, c.lines, c.wrapped = width, 0, make(map[*entry][]line)
}

// linesOf returns the lines of an entry. Between entries is a blank one.
func (c *conversation) linesOf(i int) []line {
	e := c.entries[i]
	lines := c.wrapped[e]
	if lines == nil {
		if c.lines > mostWrapped {
			c.resize(c.width)
		}
		lines = append([]line{{}}, e.wrap(c.width)...)
		c.wrapped[e] = lines
		c.lines += len(lines)
	}
	if i == 0 {
		return lines[1:]
	}
	return lines
}

// back returns the place so many lines before p, or the first.
func (c *conversation) back(p place, by int) place {
	for p.line < by {
		if p.entry == 0 {
			return place{}
		}
		by -= p.line
		p = place{p.entry - 1, len(c.linesOf(p.entry - 1))}
	}
	return place{p.entry, p.line - by}
}

// forward returns the place so many lines behind p, or the last.
func (c *conversation) forward(p place, by int) place {
	for {
		left := len(c.linesOf(p.entry)) - p.line
		switch {
		case by < left:
			return place{p.entry, p.line + by}
		case p.entry == len(c.entries)-1:
			return place{p.entry, p.line + left - 1}
		}
		by -= left
		p = place{p.entry + 1, 0}
	}
}

// last returns the first line that is in view when the last one is.
func (c *conversation) last(height int) place {
	end := len(c.entries) - 1
	return c.back(place{end, len(c.linesOf(end))}, height)
}

// first returns the first line that is in view.
func (c *conversation) first(height int) place {
	last := c.last(height)
	if c.follow {
		return last
	}
	top := c.top
	top.line = min(top.line, len(c.linesOf(top.entry))-1) // there were more at another width
	if last.before(top) {
		return last
	}
	return top
}

// move scrolls by lines.
func (c *conversation) move(by, height int) {
	if len(c.entries) == 0 {
		return
	}
	top := c.first(height)
	if by < 0 {
		top = c.back(top, -by)
	} else {
		top = c.forward(top, by)
	}
	c.show(top, height)
}

// moveToEnd scrolls to the beginning or the end.
func (c *conversation) moveToEnd(end bool, height int) {
	if len(c.entries) == 0 {
		return
	}
	c.show(place{}, height)
	c.follow = c.follow || end
}

func (c *conversation) show(top place, height int) {
	c.top, c.follow = top, !top.before(c.last(height))
}

// window returns the lines that are in view.
func (c *conversation) window(height int) []line {
	if len(c.entries) == 0 {
		return nil
	}
	top := c.first(height)
	lines := slices.Clip(c.linesOf(top.entry)[top.line:])
	for i := top.entry + 1; i < len(c.entries) && len(lines) < height; i++ {
		lines = append(lines, c.linesOf(i)...)
	}
	return lines[:min(len(lines), height)]
}
