package powercut

import (
	"bytes"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
)

// A Model decides what a disk remembers when the power fails. The package documentation describes the models.
type Model struct {
	Name string
	// choices returns what is open after the operations.
	choices func(before *Disk, done []Operation) choices
}

// The models.
var (
	Ordered = Model{"ordered", ordered}
	Weak    = Model{"weak", weak}
)

// choices are the questions that a model leaves open. Each has a number of answers: the first is that the disk forgot all it
// may, and the last that it remembers everything.
type choices struct {
	answers []int
	// state returns the disk that the answers make.
	state func(answers []int) *Disk
}

// all yields all combinations of answers if they are at most the bound, and else the sample that the package documentation
// describes. left is how many are left out.
func (c choices) all(bound int) (combinations iter.Seq[[]int], left int) {
	total := 1
	for _, n := range c.answers {
		if total *= n; total > 1<<30 {
			total = 1 << 30
		}
	}
	if total <= bound {
		return c.each, 0
	}
	sample := c.corners()
	random := rand.New(rand.NewPCG(uint64(len(c.answers)), uint64(total)))
	if len(sample) > bound { // the two extremes stay
		random.Shuffle(len(sample)-2, func(i, j int) { sample[i+2], sample[j+2] = sample[j+2], sample[i+2] })
		sample = sample[:max(bound, 2)]
	}
	for len(sample) < bound {
		answers := make([]int, len(c.answers))
		for i, n := range c.answers {
			answers[i] = random.IntN(n)
		}
		sample = append(sample, answers)
	}
	return slices.Values(sample), total - len(sample)
}

func (c choices) each(yield func([]int) bool) {
	answers := make([]int, len(c.answers))
	for {
		if !yield(answers) {
			return
		}
		i := 0
		for ; i < len(answers); i++ {
			if answers[i]++; answers[i] < c.answers[i] {
				break
			}
			answers[i] = 0
		}
		if i == len(answers) {
			return
		}
	}
}

// corners returns the two extremes, and the combinations that differ from one of them in one answer.
func (c choices) corners() [][]int {
	least, most := make([]int, len(c.answers)), make([]int, len(c.answers))
	for i, n := range c.answers {
		most[i] = n - 1
	}
	found := [][]int{least, most}
	for _, extreme := range found {
		for i, n := range c.answers {
			for answer := range n {
				if answer != extreme[i] {
					other := slices.Clone(extreme)
					other[i] = answer
					found = append(found, other)
				}
			}
		}
	}
	return found
}

// changes returns the indices of the operations on names.
func changes(done []Operation) []int {
	var found []int
	for i, o := range done {
		if o.Kind == Add || o.Kind == Move || o.Kind == Remove {
			found = append(found, i)
		}
	}
	return found
}

// ordered asks how many operations on names the journal has, and for each file whether the bytes that were not synced are
// there.
func ordered(before *Disk, done []Operation) choices {
	journaled := 0 // operations on names before the last sync
	names := changes(done)
	for i, o := range done {
		if o.Kind == Sync {
			journaled, _ = slices.BinarySearch(names, i)
		}
	}
	files, synced := written(before, done)
	c := choices{answers: []int{len(names) - journaled + 1}}
	for range files {
		c.answers = append(c.answers, 2)
	}
	c.state = func(answers []int) *Disk {
		last := journaled + answers[0]
		d := remember(before, done, func(i int) (take, give bool) {
			n, _ := slices.BinarySearch(names, i)
			return n < last, n < last
		})
		for _, f := range synced {
			d.files[f.node] = f.whole
		}
		for i, f := range files {
			d.files[f.node] = [][]byte{f.synced, f.whole}[answers[i+1]]
		}
		return d
	}
	return c
}

// weak asks how many operations on its names each folder has, and for each file what became of the bytes that were not
// synced.
func weak(before *Disk, done []Operation) choices {
	// pending are the operations on the names of each folder after its last sync.
	pending := map[Node][]int{}
	for i, o := range done {
		switch o.Kind {
		case Sync:
			delete(pending, o.Node)
		case Add:
			pending[o.To.Folder] = append(pending[o.To.Folder], i)
		case Remove:
			pending[o.From.Folder] = append(pending[o.From.Folder], i)
		case Move:
			pending[o.From.Folder] = append(pending[o.From.Folder], i)
			if o.To.Folder != o.From.Folder {
				pending[o.To.Folder] = append(pending[o.To.Folder], i)
			}
		}
	}
	folders := slices.Sorted(maps.Keys(pending))
	files, synced := written(before, done)
	var c choices
	for _, folder := range folders {
		c.answers = append(c.answers, len(pending[folder])+1)
	}
	for range files {
		c.answers = append(c.answers, 4)
	}
	c.state = func(answers []int) *Disk {
		// forgotten is the first operation that each folder forgot.
		forgotten := map[Node]int{}
		for i, folder := range folders {
			forgotten[folder] = len(done)
			if n := answers[i]; n < len(pending[folder]) {
				forgotten[folder] = pending[folder][n]
			}
		}
		knows := func(folder Node, i int) bool {
			first, some := forgotten[folder]
			return !some || i < first
		}
		keepMoved(done, forgotten, knows)
		d := remember(before, done, func(i int) (take, give bool) {
			return knows(done[i].From.Folder, i), knows(done[i].To.Folder, i)
		})
		for _, f := range synced {
			d.files[f.node] = f.whole
		}
		for i, f := range files {
			d.files[f.node] = [][]byte{f.synced, f.torn(), f.zeroed(), f.whole}[answers[len(folders)+i]]
		}
		return d
	}
	return c
}

// keepMoved makes folders remember the new name of a file whose old name is gone, and the names of the folders that lead to
// it: no file system loses what a rename moves.
func keepMoved(done []Operation, forgotten map[Node]int, knows func(Node, int) bool) {
	made := map[Node]int{} // the operation that made each folder
	for i, o := range done {
		if o.Kind == Add && o.IsFolder {
			made[o.Node] = i
		}
	}
	for again := true; again; {
		again = false
		keep := func(folder Node, i int) {
			if !knows(folder, i) {
				forgotten[folder], again = i+1, true
			}
		}
		for i, o := range done {
			if o.Kind != Move || o.From.Folder == o.To.Folder || !knows(o.From.Folder, i) {
				continue
			}
			keep(o.To.Folder, i)
			for folder := o.To.Folder; ; {
				add, isNew := made[folder]
				if !isNew {
					break
				}
				folder = done[add].To.Folder
				keep(folder, add)
			}
		}
	}
}

// remember returns the disk that has those halves of the operations on names that the function says. All nodes exist, with
// the bytes that they had at first.
func remember(before *Disk, done []Operation, halves func(i int) (take, give bool)) *Disk {
	d := before.clone()
	for _, o := range done {
		if o.Kind == Add {
			d.make(o)
		}
	}
	for _, i := range changes(done) {
		take, give := halves(i)
		if take {
			d.take(done[i])
		}
		if give {
			d.give(done[i])
		}
	}
	return d
}

// file is one whose last bytes a program wrote.
type file struct {
	node Node
	// synced are the bytes that are certain, and whole those of the last write.
	synced, whole []byte
}

// written returns the files that the operations wrote: those with bytes that no sync covers, and the others.
func written(before *Disk, done []Operation) (unsynced, synced []file) {
	files := map[Node]*file{}
	for _, o := range done {
		switch f := files[o.Node]; {
		case o.Kind == Write && f == nil:
			files[o.Node] = &file{o.Node, before.files[o.Node], o.Data}
		case o.Kind == Write:
			f.whole = o.Data
		case o.Kind == Sync && f != nil:
			f.synced = f.whole
		}
	}
	for _, node := range slices.Sorted(maps.Keys(files)) {
		if f := *files[node]; bytes.Equal(f.synced, f.whole) {
			synced = append(synced, f)
		} else {
			unsynced = append(unsynced, f)
		}
	}
	return unsynced, synced
}

// kept returns the number of bytes at the start that a write left as they were synced.
func (f file) kept() int {
	n := 0
	for n < min(len(f.synced), len(f.whole)) && f.synced[n] == f.whole[n] {
		n++
	}
	return n
}

func (f file) torn() []byte { return f.whole[:f.kept()+(len(f.whole)-f.kept())/2] }

func (f file) zeroed() []byte {
	return append(slices.Clone(f.whole[:f.kept()]), make([]byte, len(f.whole)-f.kept())...)
}
