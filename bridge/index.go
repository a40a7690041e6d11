package bridge

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// index is the folder of segments beside a log. The segments that count form a chain: the first begins at
// byte 0 of the log, each further one where the one before ends. What the chain does not reach yet (the
// tail) is read from the log itself, so any chain is a right one, also the empty one:
//
//	lost            the chain is empty; the log is read once and indexed again
//	stale           the chain is short; the rest of the log is read
//	damaged         checksums fail; from there on it counts as lost
//	of another log, or of a log that was replaced or cut: file number, size or fingerprint differ; lost
//
// Segments are written under the log's lock, under a temporary name that is then renamed. A new segment
// takes in the smaller ones before it, so that few remain and every line is rewritten a few times only. Nothing
// here is ever the only place of a fact: what a segment says of an id is compared with the log before it is
// believed, and what it does not say is protected by checksums.
type index struct {
	folder string
	// distrusted is set when a segment turned out wrong although it passed its checks: all segments are
	// passed over until new ones are written.
	distrusted bool
}

const segmentSuffix = ".segment"

// When the tail is worth a segment: a fresh process reads at most about this much of the log again.
const (
	sealLines = 64
	sealBytes = 64 << 10
	bulkLines = 1 << 16 // while indexing a long stretch: what is kept in memory at most
)

// mergeRatio is how many times larger than what follows a segment must be to be left alone.
const mergeRatio = 4

// chain is the segments in log order.
type chain []*segment

// end is the offset up to which the chain indexes the log.
func (c chain) end() int64 {
	if len(c) == 0 {
		return 0
	}
	return c[len(c)-1].To
}

// lines is the number of lines before end.
func (c chain) lines() int64 {
	if len(c) == 0 {
		return 0
	}
	return c[len(c)-1].Lines
}

// counts are those of the log before end.
func (c chain) counts() (counts, error) {
	if len(c) == 0 {
		return newCounts(), nil
	}
	s, err := c[len(c)-1].summary()
	if err != nil {
		return counts{}, err
	}
	return s.Counts, nil
}

func (c chain) acquire() {
	for _, s := range c {
		s.file.acquire()
	}
}

func (c chain) release() error {
	var failed []error
	for _, s := range c {
		failed = append(failed, s.file.release())
	}
	return errors.Join(failed...)
}

func segmentName(from, to int64) string { return fmt.Sprintf("%016x-%016x%s", from, to, segmentSuffix) }

// stretch is the part of the log a segment's name speaks of.
type stretch struct{ from, to int64 }

// stretches lists the segments in the folder; none if it cannot be read.
func (x *index) stretches() []stretch {
	entries, err := os.ReadDir(x.folder)
	if err != nil {
		return nil // reading goes on without an index, and writing one will say what is wrong
	}
	var found []stretch
	for _, e := range entries {
		var s stretch
		if _, err := fmt.Sscanf(e.Name(), "%016x-%016x"+segmentSuffix, &s.from, &s.to); err == nil &&
			e.Name() == segmentName(s.from, s.to) && s.from < s.to {
			found = append(found, s)
		}
	}
	return found
}

// load opens the chain that reaches farthest, and reports the segments that are of no use.
func (x *index) load(log *sharedFile, size int64, report func(error)) chain {
	if x.distrusted {
		return nil
	}
	const attempts = 3
	for attempt := 1; ; attempt++ {
		c, replaced := x.loadOnce(log, size, report)
		if !replaced || attempt == attempts {
			return c
		}
		if err := c.release(); err != nil { // another process merged segments meanwhile
			report(err)
		}
	}
}

func (x *index) loadOnce(log *sharedFile, size int64, report func(error)) (c chain, replaced bool) {
	all := x.stretches()
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	for _, s := range all {
		if s.from != c.end() {
			continue
		}
		opened, err := openSegment(filepath.Join(x.folder, segmentName(s.from, s.to)), log, size, inode(log.info))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			replaced = true
		case err != nil:
			report(err)
		case opened.From != s.from || opened.To != s.to:
			report(errors.Join(fmt.Errorf("%s: %w: name", opened.file.Name(), errDamaged), opened.file.release()))
		default:
			c = append(c, opened)
		}
	}
	return c, replaced
}

// seal writes a segment that indexes the tail, which ends at byte end and line lines of the log, together
// with the segments it takes in, and returns the new chain. The caller holds the log's lock.
func (x *index) seal(log *sharedFile, c chain, t *tail, end, lines int64, report func(error)) (chain, error) {
	if err := os.Mkdir(x.folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	keep, lineCount := len(c), int64(t.len())
	for keep > 0 && c[keep-1].Listed < mergeRatio*lineCount {
		keep--
		lineCount += c[keep].Listed
	}
	f := footer{From: c[:keep].end(), To: end, Lines: lines, Inode: inode(log.info)}
	var err error
	if f.Fingerprint, err = fingerprint(log, f.From, f.To); err != nil {
		return nil, err
	}
	base, err := c.counts()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(x.folder, segmentName(f.From, f.To))
	if err := writeSegment(path, f, c[keep:], t, base.plus(t.counts)); err != nil {
		return nil, err
	}
	written, err := openSegment(path, log, end, f.Inode)
	if err != nil {
		return nil, err
	}
	x.distrusted = false
	sealed := append(slices.Clone(c[:keep]), written)
	if err := c[keep:].release(); err != nil {
		report(err)
	}
	x.clean(sealed, report)
	return sealed, nil
}

// writeSegment writes the segment that takes in merged and t.
func writeSegment(path string, f footer, merged chain, t *tail, total counts) error {
	file, err := os.CreateTemp(filepath.Dir(path), "*.tmp")
	if err != nil {
		return err
	}
	err = errors.Join(writeParts(file, f, merged, t, total), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

func writeParts(file io.Writer, f footer, merged chain, t *tail, total counts) error {
	buffer := bufio.NewWriterSize(file, 256<<10)
	w := &segmentWriter{to: buffer}
	var err error
	if f.Records, err = w.write(mergedByKey(merged, t)); err != nil {
		return err
	}
	if err := w.endBlock(); err != nil {
		return err
	}
	sum := summary{Counts: total}
	if f.Listed, err = w.writeLists(&sum, merged, t); err != nil {
		return err
	}
	if err := w.endBlock(); err != nil {
		return err
	}
	if err := w.finish(f, sum); err != nil {
		return err
	}
	return buffer.Flush()
}

func mergedByKey(merged chain, t *tail) nextCell {
	sources := []nextCell{cellsOf(t.sorted())}
	for _, s := range merged {
		sources = append(sources, part{s, 0, 0, s.Records}.cells())
	}
	return mergeCells(byKey, sources...)
}

// writeLists writes the second part and notes in sum what stands where.
func (w *segmentWriter) writeLists(sum *summary, merged chain, t *tail) (int64, error) {
	names := t.receivers()
	for _, s := range merged {
		old, err := s.summary()
		if err != nil {
			return 0, err
		}
		for _, l := range old.Lists {
			names = append(names, l.To)
		}
	}
	slices.Sort(names)
	written := int64(0)
	add := func(name string, newest []cell, of func(*segment) (nextCell, error)) (list, error) {
		var sources []nextCell
		for _, s := range merged {
			next, err := of(s)
			if err != nil {
				return list{}, err
			}
			sources = append(sources, next)
		}
		n, err := w.write(concatCells(append(sources, cellsOf(newest))))
		l := list{To: name, Start: written, Count: n}
		written += n
		return l, err
	}
	for _, name := range slices.Compact(names) {
		l, err := add(name, t.lists[name], func(s *segment) (nextCell, error) { return s.receiver(name, 0) })
		if err != nil {
			return 0, err
		}
		sum.Lists = append(sum.Lists, l)
	}
	var err error
	sum.Skipped, err = add("", t.skipped, func(s *segment) (nextCell, error) { return s.skipped(0) })
	return written, err
}

// clean removes what stands in the folder beside the chain: segments that were taken in, useless ones, and
// what a crash left. The caller holds the log's lock.
func (x *index) clean(c chain, report func(error)) {
	keep := map[string]bool{}
	for _, s := range c {
		keep[filepath.Base(s.file.Name())] = true
	}
	entries, err := os.ReadDir(x.folder)
	if err != nil {
		report(err)
		return
	}
	for _, e := range entries {
		ours := strings.HasSuffix(e.Name(), segmentSuffix) || strings.HasSuffix(e.Name(), ".tmp")
		if !ours || keep[e.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(x.folder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			report(err)
		}
	}
}
