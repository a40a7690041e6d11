package powercut

import (
	"crypto/sha256"
	"iter"
)

// A Recording has the operations of programs that ran one after another.
type Recording struct {
	Before     *Disk
	Operations []Operation
	// Ends has the number of operations when each program ended, and After what the folder held then.
	Ends  []int
	After []*Disk
}

// A Cut is a state in which a power cut may leave the disk.
type Cut struct {
	Disk *Disk
	// Done is the number of operations before the cut, and Ended the number of programs that had ended.
	Done, Ended int
}

// Cuts yields the states of all cuts under a model, at most bound for each prefix of the operations; see the package
// documentation. It adds to left the states that it leaves out.
func (r *Recording) Cuts(m Model, bound int, left *int) iter.Seq[Cut] {
	return func(yield func(Cut) bool) {
		ended := 0
		seen := map[[sha256.Size]byte]bool{}
		for done := 0; done <= len(r.Operations); done++ {
			for ended < len(r.Ends) && r.Ends[ended] <= done {
				ended++
				clear(seen) // the same state may now be wrong
			}
			if done > 0 && r.Operations[done-1].Kind == Sync && (ended == 0 || r.Ends[ended-1] != done) {
				continue // a sync leaves fewer states than the prefix before it
			}
			c := m.choices(r.Before, r.Operations[:done])
			all, missing := c.all(bound)
			*left += missing
			for answers := range all {
				disk := c.state(answers)
				if sum := disk.sum(); !seen[sum] {
					seen[sum] = true
					if !yield(Cut{disk, done, ended}) {
						return
					}
				}
			}
		}
	}
}

// WithoutSyncs returns the recording of the same programs as if they synced nothing. A test that finds no fault in it
// finds none anywhere.
func (r *Recording) WithoutSyncs() *Recording {
	without := &Recording{Before: r.Before, After: r.After}
	for i, o := range r.Operations {
		for len(without.Ends) < len(r.Ends) && r.Ends[len(without.Ends)] <= i {
			without.Ends = append(without.Ends, len(without.Operations))
		}
		if o.Kind != Sync {
			without.Operations = append(without.Operations, o)
		}
	}
	for len(without.Ends) < len(r.Ends) {
		without.Ends = append(without.Ends, len(without.Operations))
	}
	return without
}
