package bridge

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"
)

// A segment is a file that indexes the lines of a stretch of the log. It is written once and never changed:
//
//	blocks    the cells of the stretch's records by key, then the cells of every receiver's records in log
//	          order (receivers by name), then the cells of the skipped lines; each of the two parts begins
//	          a block
//	summary   JSON: whose cells stand where in the second part, and the counts of the log up to the
//	          segment's end
//	footer    fixed size: the stretch, sizes, and the fingerprint of the log's bytes in the stretch
//
// All three carry checksums and nothing is believed without checking, so a segment needs no fsync: one that
// a power loss left incomplete is found out and its stretch of the log read again.
const (
	blockSize     = 512
	cellSize      = 24
	cellsPerBlock = (blockSize - 4) / cellSize
	segmentMagic  = "oacpbri1"
)

// errDamaged says that the index is not what this package wrote, or not about the log as it is now.
var errDamaged = errors.New("index does not fit the log")

// castagnoli is made when it is first needed: making it costs more than all else that a program does at its start.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// footer stands at the end of a segment, little-endian, followed by its checksum.
type footer struct {
	Magic       [8]byte
	From, To    int64 // the stretch of the log, in bytes
	Lines       int64 // lines of the log before To
	Records     int64 // cells in the first part
	Listed      int64 // cells in the second part
	SummarySize int64
	SummarySum  uint32
	_           uint32
	Inode       uint64
	Fingerprint [16]byte
}

var footerSize = int64(binary.Size(footer{})) + 4

// summary is the middle part of a segment.
type summary struct {
	Lists   []list `json:"lists"`   // by receiver
	Skipped list   `json:"skipped"` // the lines that are no records
	Counts  counts `json:"counts"`  // of the whole log before the segment's end
}

// list is the place of some cells in the second part.
type list struct {
	To    string `json:"to"`
	Start int64  `json:"start"`
	Count int64  `json:"count"`
}

// segment is an open segment file.
type segment struct {
	footer
	file   *sharedFile
	loaded atomic.Pointer[summary]
}

// openSegment opens a segment and checks that it is about the log.
func openSegment(path string, log io.ReaderAt, size int64, inode uint64) (*segment, error) {
	file, err := openShared(path)
	if err != nil {
		return nil, err
	}
	s := &segment{file: file}
	if err := s.check(log, size, inode); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.release())
	}
	return s, nil
}

func (s *segment) check(log io.ReaderAt, size int64, inode uint64) error {
	fileSize := s.file.info.Size()
	if fileSize < footerSize {
		return fmt.Errorf("%w: too short", errDamaged)
	}
	raw := make([]byte, footerSize)
	if _, err := s.file.ReadAt(raw, fileSize-footerSize); err != nil {
		return err
	}
	body := raw[:footerSize-4]
	if crc32.Checksum(body, castagnoli()) != binary.LittleEndian.Uint32(raw[footerSize-4:]) {
		return fmt.Errorf("%w: checksum of the footer", errDamaged)
	}
	if _, err := binary.Decode(body, binary.LittleEndian, &s.footer); err != nil {
		return err
	}
	switch {
	case string(s.Magic[:]) != segmentMagic:
		return fmt.Errorf("%w: another format", errDamaged)
	case min(s.Records, s.Listed, s.SummarySize, s.From) < 0 || s.From >= s.To,
		blockBytes(s.Records)+blockBytes(s.Listed)+s.SummarySize+footerSize != fileSize:
		return fmt.Errorf("%w: size", errDamaged)
	case s.To > size:
		return fmt.Errorf("%w: the log is shorter", errDamaged)
	case s.Inode != inode:
		return fmt.Errorf("%w: the log is another file", errDamaged)
	}
	found, err := fingerprint(log, s.From, s.To)
	if err != nil {
		return err
	}
	if found != s.Fingerprint {
		return fmt.Errorf("%w: the log has other bytes", errDamaged)
	}
	return nil
}

// fingerprint hashes samples of the log's bytes between from and to, the last ones among them. It tells one
// log from another and finds most edits in place, at a cost that does not depend on the stretch.
func fingerprint(log io.ReaderAt, from, to int64) ([16]byte, error) {
	const samples, size = 4, 256
	h := sha256.New()
	buffer := make([]byte, size)
	for i := range int64(samples) {
		at := max(from, to-size)
		at = from + (at-from)*i/(samples-1)
		n, err := log.ReadAt(buffer[:min(size, to-at)], at)
		if err != nil && err != io.EOF {
			return [16]byte{}, err
		}
		h.Write(buffer[:n])
	}
	return [16]byte(h.Sum(nil)[:16]), nil
}

// blockBytes is the size of n cells in blocks.
func blockBytes(n int64) int64 { return (n + cellsPerBlock - 1) / cellsPerBlock * blockSize }

// listsBlock is the number of the first block of the second part.
func (s *segment) listsBlock() int64 { return blockBytes(s.Records) / blockSize }

// summary reads the middle part, once.
func (s *segment) summary() (*summary, error) {
	if known := s.loaded.Load(); known != nil {
		return known, nil
	}
	raw := make([]byte, s.SummarySize)
	if _, err := s.file.ReadAt(raw, blockBytes(s.Records)+blockBytes(s.Listed)); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", s.file.Name(), errDamaged, err)
	}
	if crc32.Checksum(raw, castagnoli()) != s.SummarySum {
		return nil, fmt.Errorf("%s: %w: checksum of the summary", s.file.Name(), errDamaged)
	}
	found := &summary{Counts: newCounts()}
	if err := json.Unmarshal(raw, found); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", s.file.Name(), errDamaged, err)
	}
	s.loaded.Store(found)
	return found, nil
}

// block reads the block with the given number into buffer and checks it.
func (s *segment) block(number int64, buffer []byte) error {
	if _, err := s.file.ReadAt(buffer, number*blockSize); err != nil {
		return fmt.Errorf("%s: %w: %w", s.file.Name(), errDamaged, err)
	}
	return s.checkBlock(number, buffer)
}

func (s *segment) checkBlock(number int64, block []byte) error {
	if blockSum(number, block) != binary.LittleEndian.Uint32(block[blockSize-4:]) {
		return fmt.Errorf("%s: %w: checksum of block %d", s.file.Name(), errDamaged, number)
	}
	return nil
}

// blockSum is the checksum of a block at its place.
func blockSum(number int64, block []byte) uint32 {
	var place [8]byte
	binary.LittleEndian.PutUint64(place[:], uint64(number))
	return crc32.Update(crc32.Checksum(block[:blockSize-4], castagnoli()), castagnoli(), place[:])
}

func decodeCell(block []byte, i int64) cell {
	raw := block[i*cellSize:]
	return cell{
		key:    binary.LittleEndian.Uint64(raw),
		offset: int64(binary.LittleEndian.Uint64(raw[8:])),
		line:   int64(binary.LittleEndian.Uint64(raw[16:])),
	}
}

// find gives the cells with key in log order.
func (s *segment) find(key uint64) ([]cell, error) {
	p := part{s, 0, 0, s.Records}
	p, err := p.from(func(c cell) uint64 { return c.key }, key, 0, ^uint64(0))
	if err != nil {
		return nil, err
	}
	var found []cell
	next := p.cells()
	for {
		c, ok, err := next()
		if err != nil || !ok || c.key != key {
			return found, err
		}
		found = append(found, c)
	}
}

// receiver gives the cells of the records to name that stand at offset after or later.
func (s *segment) receiver(name string, after int64) (nextCell, error) {
	sum, err := s.summary()
	if err != nil {
		return nil, err
	}
	for _, l := range sum.Lists {
		if l.To == name {
			return s.listed(l, after)
		}
	}
	return cellsOf(nil), nil
}

// skipped gives the cells of the lines from offset after on that are no records.
func (s *segment) skipped(after int64) (nextCell, error) {
	sum, err := s.summary()
	if err != nil {
		return nil, err
	}
	return s.listed(sum.Skipped, after)
}

// listed gives the cells of a list from offset after on.
func (s *segment) listed(l list, after int64) (nextCell, error) {
	p := part{s, s.listsBlock(), l.Start, l.Start + l.Count}
	if after > s.From {
		var err error
		offset := func(c cell) uint64 { return uint64(c.offset) }
		if p, err = p.from(offset, uint64(after), uint64(s.From), uint64(s.To)); err != nil {
			return nil, err
		}
	}
	return p.cells(), nil
}

// part is a range of cells of a segment: those numbered first to last, last excluded, counted from the
// beginning of block base.
type part struct {
	*segment
	base, first, last int64
}

// cells gives the cells in order. It reads ever larger pieces, at most 64 KiB.
func (p part) cells() nextCell {
	var window, block []byte // window: what is read but not checked yet
	size := int64(blockSize)
	number, end := p.base+p.first/cellsPerBlock, p.base+blockBytes(p.last)/blockSize
	i := p.first
	return func() (cell, bool, error) {
		if i >= p.last {
			return cell{}, false, nil
		}
		if block == nil || i%cellsPerBlock == 0 {
			if len(window) == 0 {
				window = make([]byte, min(size, (end-number)*blockSize))
				if _, err := p.file.ReadAt(window, number*blockSize); err != nil {
					return cell{}, false, fmt.Errorf("%s: %w: %w", p.file.Name(), errDamaged, err)
				}
				size = min(2*size, 64<<10)
			}
			block, window = window[:blockSize], window[blockSize:]
			if err := p.checkBlock(number, block); err != nil {
				return cell{}, false, err
			}
			number++
		}
		i++
		return decodeCell(block, (i-1)%cellsPerBlock), true, nil
	}
}

// from returns the range from the first cell on whose value is not below target. Values ascend and lie
// between lowest and highest. Ids are hashes and offsets ascend evenly, so guessing by proportion finds the
// block in two or three reads; every third step halves what is left, for values that are not even.
func (p part) from(value func(cell) uint64, target, lowest, highest uint64) (part, error) {
	var block [blockSize]byte
	low, high := p.first/cellsPerBlock, (p.last+cellsPerBlock-1)/cellsPerBlock // blocks still in question
	for step := 1; low < high; step++ {
		middle := (low + high) / 2
		if step%3 != 0 && lowest < target && target < highest {
			share := float64(target-lowest) / float64(highest-lowest)
			middle = min(low+int64(share*float64(high-low)), high-1)
		}
		if err := p.block(p.base+middle, block[:]); err != nil {
			return p, err
		}
		begin, end := max(p.first, middle*cellsPerBlock), min(p.last, (middle+1)*cellsPerBlock)
		at := func(i int64) uint64 { return value(decodeCell(block[:], i%cellsPerBlock)) }
		switch {
		case target <= at(begin):
			high, highest = middle, at(begin)
		case target > at(end-1):
			low, lowest = middle+1, at(end-1)
		default:
			for at(begin) < target {
				begin++
			}
			p.first = begin
			return p, nil
		}
	}
	p.first = min(max(p.first, low*cellsPerBlock), p.last)
	return p, nil
}
