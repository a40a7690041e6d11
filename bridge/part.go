package bridge

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
)

// cell is what the index knows of the line of a record.
type cell struct {
	key    uint64 // keyOf the record's id
	offset int64  // of the line's first byte
	line   int64  // number of the line, from 1
}

func byKey(a, b cell) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.offset, b.offset))
}

// keyDigits is how many leading digits of a hexadecimal id its key depends on.
const keyDigits = 16

// keyOf hashes an id. Ids that begin with the same 16 lower-case hexadecimal digits have the same
// key, so that a record can be found by these digits. Different ids may share a key: a look-up
// compares ids.
func keyOf(id string) uint64 {
	if hasKeyDigits(id) {
		id = id[:keyDigits]
	}
	sum := sha256.Sum256([]byte(id))
	return min(binary.BigEndian.Uint64(sum[:]), math.MaxUint64-1) // the index of earlier versions has skipped lines under the greatest key
}

func hasKeyDigits(id string) bool {
	return len(id) >= keyDigits && strings.Trim(id[:keyDigits], "0123456789abcdef") == ""
}

// part is a file of cells, sorted by key and then offset, in buckets of a fixed size. A key's home
// is the bucket at its proportional place among all keys. A bucket that is full passes cells on to
// the next one, at the end to buckets that are home to no key. So a look-up reads one bucket,
// rarely two.
//
// A bucket ends in a checksum that depends on its number and on the file's name.
type part struct {
	partInfo
	folder string
	file   *os.File // nil until it is first read
}

// partInfo is what index.json says of a part.
type partInfo struct {
	Name    string `json:"name"`
	Cells   int    `json:"cells"`
	Homes   int64  `json:"homes"`   // buckets that are home to some key
	Buckets int64  `json:"buckets"` // all buckets
}

const (
	cellSize    = 24
	bucketCells = 21
	bucketFill  = 15 // cells for each home, on average
	bucketSize  = 512
	bucketSum   = bucketSize - 4 // where the checksum begins
)

// home returns the number of a key's home.
func (p partInfo) home(key uint64) int64 {
	home, _ := bits.Mul64(key, uint64(p.Homes))
	return int64(home)
}

// sum returns the checksum of the bucket with the given number.
func (p partInfo) sum(number int64, bucket []byte) uint32 {
	place := binary.LittleEndian.AppendUint64(nil, uint64(number))
	return checksum([]byte(p.Name), place, bucket[:bucketSum])
}

// writePart writes the cells, which are sorted by key.
func writePart(folder string, cells []cell) (partInfo, error) {
	file, err := os.CreateTemp(folder, "*"+partSuffix)
	if err != nil {
		return partInfo{}, err
	}
	p := partInfo{Name: filepath.Base(file.Name()), Cells: len(cells), Homes: int64(len(cells))/bucketFill + 1}
	w := bufio.NewWriterSize(file, 64<<10)
	for ; p.Buckets < p.Homes || len(cells) > 0; p.Buckets++ {
		n := 0
		for n < min(bucketCells, len(cells)) && p.home(cells[n].key) <= p.Buckets {
			n++
		}
		if _, err = w.Write(p.bucket(p.Buckets, cells[:n])); err != nil {
			break
		}
		cells = cells[n:]
	}
	if err = errors.Join(err, w.Flush(), file.Close()); err != nil {
		return partInfo{}, errors.Join(err, os.Remove(file.Name()))
	}
	return p, nil
}

// bucket encodes a bucket. Places without a cell are zero.
func (p partInfo) bucket(number int64, cells []cell) []byte {
	bucket := make([]byte, 0, bucketSize)
	for _, c := range cells {
		bucket = binary.LittleEndian.AppendUint64(bucket, c.key)
		bucket = binary.LittleEndian.AppendUint64(bucket, uint64(c.offset))
		bucket = binary.LittleEndian.AppendUint64(bucket, uint64(c.line))
	}
	bucket = bucket[:bucketSize]
	binary.LittleEndian.PutUint32(bucket[bucketSum:], p.sum(number, bucket))
	return bucket
}

// open opens the file. The error matches fs.ErrNotExist if another process has merged the part into
// a new one.
func (p *part) open() (err error) {
	if p.file, _, err = openRegular(filepath.Join(p.folder, p.Name), os.O_RDONLY); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil
}

func (p *part) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

// read appends the cells of the bucket with the given number.
func (p *part) read(cells []cell, number int64) ([]cell, error) {
	if p.file == nil {
		if err := p.open(); err != nil {
			return cells, err
		}
	}
	var bucket [bucketSize]byte
	if _, err := p.file.ReadAt(bucket[:], number*bucketSize); err != nil {
		return cells, fmt.Errorf("%s: %w: %w", p.file.Name(), errDamaged, err)
	}
	if p.sum(number, bucket[:]) != binary.LittleEndian.Uint32(bucket[bucketSum:]) {
		return cells, fmt.Errorf("%s: %w: checksum of bucket %d", p.file.Name(), errDamaged, number)
	}
	for i := range bucketCells {
		raw := bucket[i*cellSize:]
		c := cell{
			key:    binary.LittleEndian.Uint64(raw),
			offset: int64(binary.LittleEndian.Uint64(raw[8:])),
			line:   int64(binary.LittleEndian.Uint64(raw[16:])),
		}
		if c.line == 0 {
			break
		}
		cells = append(cells, c)
	}
	return cells, nil
}

// all returns every cell.
func (p *part) all() ([]cell, error) {
	cells := make([]cell, 0, p.Cells)
	var err error
	for number := range p.Buckets {
		if cells, err = p.read(cells, number); err != nil {
			return nil, err
		}
	}
	return cells, nil
}

// find returns the cells with the key, in log order.
func (p *part) find(key uint64) ([]cell, error) {
	var found []cell
	var room [bucketCells]cell
	for number := p.home(key); number < p.Buckets; number++ {
		cells, err := p.read(room[:0], number)
		if err != nil {
			return nil, err
		}
		for _, c := range cells {
			if c.key == key {
				found = append(found, c)
			}
		}
		if len(cells) < bucketCells || cells[bucketCells-1].key > key {
			return found, nil
		}
	}
	return found, nil
}
