package bridge

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// cell is what the index knows of one line.
type cell struct {
	key    uint64 // keyOf the record's id; 0 for a skipped line
	offset int64  // of the line's first byte
	line   int64  // number of the line, from 1
}

func byOffset(a, b cell) int { return cmp.Compare(a.offset, b.offset) }

func byKey(a, b cell) int { return cmp.Or(cmp.Compare(a.key, b.key), byOffset(a, b)) }

// keyDigits is the number of leading hexadecimal digits of an id that its key holds.
const keyDigits = 16

// keyOf shortens an id to the number it is sorted by: its first 16 digits if it begins with so many
// lower-case hexadecimal ones, so that ids can be found by these digits alone; a hash of any other id.
// Different ids may have one key: whoever looks up a key compares ids.
func keyOf(id string) uint64 {
	if key, ok := keyOfPrefix(id); ok {
		return key
	}
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}

// keyOfPrefix is keyOf for every id that begins with the digits prefix begins with.
func keyOfPrefix(prefix string) (uint64, bool) {
	if len(prefix) < keyDigits {
		return 0, false
	}
	var digits [keyDigits / 2]byte
	for _, c := range []byte(prefix[:keyDigits]) {
		if 'A' <= c && c <= 'F' {
			return 0, false
		}
	}
	if _, err := hex.Decode(digits[:], []byte(prefix[:keyDigits])); err != nil {
		return 0, false
	}
	return binary.BigEndian.Uint64(digits[:]), true
}

// counts are the numbers of a Status.
type counts struct {
	Total   int            `json:"total"`
	Skipped int            `json:"skipped"`
	ByAgent map[string]int `json:"by_agent"`
	ByType  map[Type]int   `json:"by_type"`
	Done    int            `json:"done"`
	Pass    int            `json:"pass"`
	Fail    int            `json:"fail"`
}

func newCounts() counts { return counts{ByAgent: map[string]int{}, ByType: map[Type]int{}} }

func (c *counts) add(r *Record) {
	c.Total++
	c.ByAgent[r.From]++
	c.ByType[r.Type]++
	if r.Type != TypeSignal {
		return
	}
	switch r.Signal {
	case SignalDone:
		c.Done++
	case SignalPass:
		c.Pass++
	case SignalFail:
		c.Fail++
	}
}

// plus returns the sums of c and other.
func (c counts) plus(other counts) counts {
	sum := c
	sum.Total += other.Total
	sum.Skipped += other.Skipped
	sum.Done += other.Done
	sum.Pass += other.Pass
	sum.Fail += other.Fail
	sum.ByAgent, sum.ByType = newCounts().ByAgent, newCounts().ByType
	for _, part := range []counts{c, other} {
		for name, n := range part.ByAgent {
			sum.ByAgent[name] += n
		}
		for name, n := range part.ByType {
			sum.ByType[name] += n
		}
	}
	return sum
}

// tail is the index of the log's newest lines, in memory: those no segment covers yet.
type tail struct {
	cells   []cell            // one a record, in log order
	first   map[uint64]int    // key to position in cells
	further map[uint64][]int  // positions of later cells with a key that first has
	lists   map[string][]cell // receiver to its records, in log order
	skipped []cell            // lines that are no records
	counts  counts
}

func newTail() *tail {
	return &tail{
		first: map[uint64]int{}, further: map[uint64][]int{}, lists: map[string][]cell{}, counts: newCounts(),
	}
}

// len is the number of lines.
func (t *tail) len() int { return len(t.cells) + len(t.skipped) }

// add takes in the line that stands at offset.
func (t *tail) add(line []byte, offset, number int64) {
	r, err := parse(trimLine(line, offset))
	if err != nil {
		t.skipped = append(t.skipped, cell{0, offset, number})
		t.counts.Skipped++
		return
	}
	t.addRecord(&r, offset, number)
}

// addRecord is add for a line that was parsed.
func (t *tail) addRecord(r *Record, offset, number int64) {
	c := cell{keyOf(r.ID), offset, number}
	if _, ok := t.first[c.key]; ok {
		t.further[c.key] = append(t.further[c.key], len(t.cells))
	} else {
		t.first[c.key] = len(t.cells)
	}
	t.cells = append(t.cells, c)
	t.lists[r.To] = append(t.lists[r.To], c)
	t.counts.add(r)
}

// find returns the cells with key in log order.
func (t *tail) find(key uint64) []cell {
	i, ok := t.first[key]
	if !ok {
		return nil
	}
	found := []cell{t.cells[i]}
	for _, i := range t.further[key] {
		found = append(found, t.cells[i])
	}
	return found
}

// sorted returns the cells by key.
func (t *tail) sorted() []cell { return slices.SortedFunc(slices.Values(t.cells), byKey) }

// receivers returns the names in lists.
func (t *tail) receivers() []string { return slices.Collect(maps.Keys(t.lists)) }

// nextCell gives one cell after the other; false behind the last one.
type nextCell func() (cell, bool, error)

func cellsOf(cells []cell) nextCell {
	return func() (cell, bool, error) {
		if len(cells) == 0 {
			return cell{}, false, nil
		}
		c := cells[0]
		cells = cells[1:]
		return c, true, nil
	}
}

// cellsFrom returns the cells, which are in log order, from byte from on.
func cellsFrom(cells []cell, from int64) []cell {
	i, _ := slices.BinarySearchFunc(cells, cell{offset: from}, byOffset)
	return cells[i:]
}

// concatCells gives the cells of the sources one source after the other.
func concatCells(sources []nextCell) nextCell {
	return func() (cell, bool, error) {
		for len(sources) > 0 {
			c, ok, err := sources[0]()
			if ok || err != nil {
				return c, ok, err
			}
			sources = sources[1:]
		}
		return cell{}, false, nil
	}
}

// mergeCells gives the cells of sources that are each in order, in order.
func mergeCells(compare func(a, b cell) int, sources ...nextCell) nextCell {
	type head struct {
		cell
		next nextCell
	}
	var heads []head
	started := false
	advance := func(next nextCell) error {
		c, ok, err := next()
		if ok {
			heads = append(heads, head{c, next})
		}
		return err
	}
	return func() (cell, bool, error) {
		if !started {
			started = true
			for _, next := range sources {
				if err := advance(next); err != nil {
					return cell{}, false, err
				}
			}
		}
		if len(heads) == 0 {
			return cell{}, false, nil
		}
		least := 0
		for i := range heads {
			if compare(heads[i].cell, heads[least].cell) < 0 {
				least = i
			}
		}
		h := heads[least]
		heads = slices.Delete(heads, least, least+1)
		if err := advance(h.next); err != nil {
			return cell{}, false, err
		}
		return h.cell, true, nil
	}
}
