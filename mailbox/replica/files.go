package replica

import (
	"errors"
	"math/rand/v2"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Files are the files of a mailbox.
type Files struct {
	Places map[Copy]Place
	// Twice are the messages with files in two boxes, because an old copy was put back or a move was interrupted.
	Twice map[Copy]bool
	// Marks are what the workspace has noted of messages, by their names, and MarkFiles the files that say it.
	Marks     map[string]facts.Mark
	MarkFiles []string
	// Problems are files that are not messages, and Unread are boxes that could not be read. Both are by path
	// below the workspace.
	Problems, Unread map[string]error
	// Memory is what the next scan needs to leave out what stays the same, and Partial says that this one left out some.
	Memory  Memories
	Partial bool
	before  Memories
	same    map[mailbox.Box]bool // boxes that were not listed
}

// A Memory is what a scan remembers of a box, or what a carrier does of another file or folder.
type Memory struct {
	// At is what Time returns; 0 if the next scan has to look at it anyway.
	At int64 `json:"at,omitempty"`
	// Days are sums of the names of the files of each day in a box.
	Days map[string]uint64 `json:"days"`
}

// Memories are those of the boxes of an agent, and those of a carrier by their paths.
type Memories map[string]Memory

// Time returns the time of a file or folder in nanoseconds: -1 if there is none, and 0 if it may change again without a new time.
func (w *Workspace) Time(path string) int64 {
	info, err := w.Root().Lstat(path)
	if err != nil {
		return -1
	}
	return durable.SettledTime(info)
}

// Forget makes the next scan look again at the messages of a day in boxes.
func (m Memories) Forget(day string, boxes ...mailbox.Box) {
	for _, box := range boxes {
		if memory := m[string(box)]; memory.Days != nil {
			memory.Days[day] = rand.Uint64() // no sum of names
			m[string(box)] = Memory{Days: memory.Days}
		}
	}
}

// DayOf returns the day with which the name of a message begins.
func DayOf(name string) string { return name[:min(len(name), len("20261121"))] }

// sum returns a number for a name. Those of several names can be added in any order.
func sum(name string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h ^ h>>32
}

// Same reports whether a box holds the same files of a day as at the scan before.
func (f *Files) Same(box mailbox.Box, day string) bool {
	return f.same[box] || f.before[string(box)].Days != nil && f.before[string(box)].Days[day] == f.Memory[string(box)].Days[day]
}

// list returns the sums of the names of the messages of each day in a folder, and the names of those from a day on.
func (w *Workspace) list(folder, from string) (days map[string]uint64, names []string, err error) {
	days = make(map[string]uint64)
	dir, err := durable.OpenDir(w.Root(), w.Dir(), folder)
	if err != nil {
		return days, nil, err
	}
	for name, listErr := range dir.All() {
		if err = listErr; err == nil && schema.IsMessageFile(name) {
			day := DayOf(name)
			days[day] += sum(name)
			if day >= from {
				names = append(names, name)
			}
		}
	}
	return days, names, errors.Join(err, dir.Close())
}

// findTwice looks for the listed messages in all boxes, also in those that were left out.
func (w *Workspace) findTwice(f *Files) {
	for c := range f.Places {
		found := 0
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
			if c.Sent {
				break
			}
			if e, err := w.find(c.Agent, box, c.Name); err == nil && e.Name != "" {
				found++
			}
		}
		if found > 1 {
			f.Twice[c] = true
		}
	}
}
