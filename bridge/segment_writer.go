package bridge

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
)

// segmentWriter writes the parts of a segment in order.
type segmentWriter struct {
	to     io.Writer
	block  []byte
	number int64
	cells  int64
}

// write appends all cells of next and returns how many there were.
func (w *segmentWriter) write(next nextCell) (int64, error) {
	before := w.cells
	for {
		c, ok, err := next()
		if err != nil || !ok {
			return w.cells - before, err
		}
		w.block = binary.LittleEndian.AppendUint64(w.block, c.key)
		w.block = binary.LittleEndian.AppendUint64(w.block, uint64(c.offset))
		w.block = binary.LittleEndian.AppendUint64(w.block, uint64(c.line))
		w.cells++
		if len(w.block) == cellsPerBlock*cellSize {
			if err := w.endBlock(); err != nil {
				return w.cells - before, err
			}
		}
	}
}

// endBlock writes the block begun, if any.
func (w *segmentWriter) endBlock() error {
	if len(w.block) == 0 {
		return nil
	}
	w.block = append(w.block, bytes.Repeat([]byte{0}, blockSize-len(w.block))...)
	binary.LittleEndian.PutUint32(w.block[blockSize-4:], blockSum(w.number, w.block))
	_, err := w.to.Write(w.block)
	w.block, w.number = w.block[:0], w.number+1
	return err
}

// finish writes summary and footer.
func (w *segmentWriter) finish(f footer, s summary) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	copy(f.Magic[:], segmentMagic)
	f.SummarySize, f.SummarySum = int64(len(raw)), crc32.Checksum(raw, castagnoli())
	end, err := binary.Append(nil, binary.LittleEndian, f)
	if err != nil {
		return err
	}
	end = binary.LittleEndian.AppendUint32(end, crc32.Checksum(end, castagnoli()))
	_, err = w.to.Write(append(raw, end...))
	return err
}
