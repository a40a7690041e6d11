package replica

import (
	"math/rand/v2"
	"os"
	"time"

	"github.com/oacp-go/oacp/mailbox"
)

// A Memory is what a scan remembers of a box.
type Memory struct {
	// At is the time of the folder in nanoseconds; 0 if the next scan has to list it anyway.
	At int64 `json:"at,omitempty"`
	// Days are sums of the names of the files of each day.
	Days map[string]uint64 `json:"days"`
}

// Memories are those of the boxes of an agent.
type Memories map[mailbox.Box]Memory

// Forget makes the next scan look again at the messages of a day in boxes.
func (m Memories) Forget(day string, boxes ...mailbox.Box) {
	for _, box := range boxes {
		if memory := m[box]; memory.Days != nil {
			memory.Days[day] = rand.Uint64() // no sum of names
			m[box] = Memory{Days: memory.Days}
		}
	}
}

// settled is how old the time of a folder must be to show later changes: file systems round times, so a younger folder
// can change without a new time.
const settled = 2 * time.Second

// folderTime returns the time of a folder, or 0 if it is not settled.
func folderTime(info os.FileInfo, now time.Time) int64 {
	if info == nil || now.Sub(info.ModTime()) < settled {
		return 0
	}
	return info.ModTime().UnixNano()
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
	return f.same[box] || f.before[box].Days != nil && f.before[box].Days[day] == f.Memory[box].Days[day]
}
