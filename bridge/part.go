package bridge

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// cell says where the line of a record is.
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
// key; indexes on disk depend on that. A look-up compares ids, because different ids may share a key.
func keyOf(id string) uint64 {
	if len(id) >= keyDigits && strings.Trim(id[:keyDigits], "0123456789abcdef") == "" {
		id = id[:keyDigits]
	}
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}

// part is a file of cells, sorted by key and then offset.
type part struct {
	partInfo
	folder string
	file   *os.File // nil until it is first read
}

// partInfo describes a part in index.json.
type partInfo struct {
	Name  string `json:"name"`
	Cells int    `json:"cells"`
}

const (
	partSuffix = ".part"
	cellSize   = 24
)

// writePart writes the cells, which are sorted.
func writePart(folder string, cells []cell) (partInfo, error) {
	data := make([]byte, 0, len(cells)*cellSize)
	for _, c := range cells {
		data = binary.LittleEndian.AppendUint64(data, c.key)
		data = binary.LittleEndian.AppendUint64(data, uint64(c.offset))
		data = binary.LittleEndian.AppendUint64(data, uint64(c.line))
	}
	file, err := os.CreateTemp(folder, "*"+partSuffix)
	if err != nil {
		return partInfo{}, err
	}
	// A part is on disk before index.json names it: a lost cell would let a record be sent twice.
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return partInfo{}, errors.Join(err, os.Remove(file.Name()))
	}
	return partInfo{filepath.Base(file.Name()), len(cells)}, nil
}

// open opens the file. The error matches fs.ErrNotExist if another process has merged the part into
// a new one.
func (p *part) open() (err error) {
	file, info, err := openRegular(filepath.Join(p.folder, p.Name), os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	if info.Size() != int64(p.Cells)*cellSize {
		return errors.Join(fmt.Errorf("%w: %s has %d bytes", errDamaged, file.Name(), info.Size()), file.Close())
	}
	p.file = file
	return nil
}

func (p *part) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

// cells returns the cells with the indices from up to, but not including, to.
func (p *part) cells(from, to int) ([]cell, error) {
	if p.file == nil {
		if err := p.open(); err != nil {
			return nil, err
		}
	}
	raw := make([]byte, (to-from)*cellSize)
	if _, err := p.file.ReadAt(raw, int64(from)*cellSize); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", p.file.Name(), errDamaged, err)
	}
	cells := make([]cell, 0, to-from)
	for ; len(raw) > 0; raw = raw[cellSize:] {
		cells = append(cells, cell{
			key:    binary.LittleEndian.Uint64(raw),
			offset: int64(binary.LittleEndian.Uint64(raw[8:])),
			line:   int64(binary.LittleEndian.Uint64(raw[16:])),
		})
	}
	return cells, nil
}

// find returns the cells with the key, in log order.
func (p *part) find(key uint64) (found []cell, err error) {
	first := sort.Search(p.Cells, func(i int) bool {
		cells, failed := p.cells(i, i+1)
		if failed != nil {
			err = failed
			return true
		}
		return cells[0].key >= key
	})
	for i := first; i < p.Cells && err == nil; i++ {
		cells, failed := p.cells(i, i+1)
		if failed != nil {
			return nil, failed
		}
		if cells[0].key != key {
			break
		}
		found = append(found, cells...)
	}
	return found, err
}
