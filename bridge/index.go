package bridge

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// index is what the folder beside a log says about the log's first bytes, at one moment: index.json
// names the parts (*.part), which hold a cell for each line. Parts are written once. Replacing
// index.json by a rename switches from one complete index to the next. Lines behind the indexed
// stretch are read from the log.
//
// Nothing is synced: checksums cover every byte, and samples of the log's bytes in index.json tell
// which log it is about. What does not fit is read again from the log. A cell is compared with the
// log before it is believed.
//
// New cells go into a new part, together with those of the parts that are not much larger. So few
// parts remain, and a cell is rewritten a few times only.
type index struct {
	extent
	parts []*part
}

// extent is how far a log was read, and what it holds up to there.
type extent struct {
	End    int64  `json:"end"`   // the offset behind the last line
	Lines  int64  `json:"lines"` // the number of lines
	Status Status `json:"status"`
}

const (
	indexFileName = "index.json"
	partSuffix    = ".part"
	// maxIndexFile bounds what is read of index.json, which grows with the number of agents only.
	maxIndexFile = 16 << 20
	// mergeRatio is how many times more cells than the newer ones a part must have to be left
	// alone.
	mergeRatio = 4
)

// errDamaged reports that this package did not write the index, or that the index does not match the log.
var errDamaged = errors.New("index does not fit the log")

// checksum returns the CRC-32C of the parts, one behind the other.
func checksum(parts ...[]byte) (sum uint32) {
	for _, part := range parts {
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), part)
	}
	return sum
}

// indexFile is index.json behind a checksum of eight hexadecimal digits.
type indexFile struct {
	extent
	Fingerprint string     `json:"fingerprint"`
	Parts       []partInfo `json:"parts"`
}

// loadIndex reads the index in folder of the log, which has size bytes. If there is no usable index, it
// returns an empty one. Parts are opened when they are first used.
func loadIndex(folder string, log io.ReaderAt, size int64) (x index, err error) {
	data, err := readFile(filepath.Join(folder, indexFileName), maxIndexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return x, fmt.Errorf("%s: %w", folder, err)
	}
	sum, text, _ := bytes.Cut(data, []byte(" "))
	if string(sum) != fmt.Sprintf("%08x", checksum(text)) {
		return x, fmt.Errorf("%w: checksum of %s in %s", errDamaged, indexFileName, folder)
	}
	var m indexFile
	if err := json.Unmarshal(text, &m); err != nil {
		return x, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if m.End > size {
		return x, fmt.Errorf("%w: the log is shorter", errDamaged)
	}
	found, err := fingerprint(log, m.End)
	if err != nil {
		return x, err
	}
	if found != m.Fingerprint {
		return x, fmt.Errorf("%w: the log has other bytes", errDamaged)
	}
	x.extent = m.extent
	for _, info := range m.Parts {
		if info.Name != filepath.Base(info.Name) || info.Homes < 1 || info.Buckets < info.Homes {
			return index{}, fmt.Errorf("%w: part %q cannot be", errDamaged, info.Name)
		}
		x.parts = append(x.parts, &part{partInfo: info, folder: folder})
	}
	return x, nil
}

// fingerprint hashes samples of the log's first end bytes, the last ones among them. It tells one
// log from another and finds most edits in place, at a cost that does not depend on the log's
// length.
func fingerprint(log io.ReaderAt, end int64) (string, error) {
	const samples, size = 8, 128
	hash := sha256.New()
	buffer := make([]byte, size)
	last := max(0, end-size)
	for i := range int64(samples) {
		n, err := log.ReadAt(buffer[:min(size, end)], last*i/(samples-1))
		if err != nil && err != io.EOF {
			return "", err
		}
		hash.Write(buffer[:n])
	}
	return hex.EncodeToString(hash.Sum(nil)[:16]), nil
}

// extend returns the index that covers the log up to to.End, and writes it to folder. The cells are
// those of the lines that x does not cover. The caller holds the log's lock, and does not use x any
// more.
func (x index) extend(folder string, log io.ReaderAt, cells []cell, to extent) (index, error) {
	for len(x.parts) > 0 && x.parts[len(x.parts)-1].Cells < mergeRatio*len(cells) {
		last := x.parts[len(x.parts)-1]
		older, err := last.all()
		if err = errors.Join(err, last.close()); err != nil {
			return index{}, err
		}
		x.parts = x.parts[:len(x.parts)-1]
		cells = append(cells, older...)
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return index{}, err
	}
	slices.SortFunc(cells, byKey)
	written, err := writePart(folder, cells)
	if err != nil {
		return index{}, err
	}
	x.extent, x.parts = to, append(x.parts, &part{partInfo: written, folder: folder})
	m := indexFile{extent: to}
	for _, p := range x.parts {
		m.Parts = append(m.Parts, p.partInfo)
	}
	if m.Fingerprint, err = fingerprint(log, to.End); err != nil {
		return index{}, err
	}
	return x, m.write(folder)
}

// write puts index.json in place and removes all files of the index that it does not name.
func (m *indexFile) write(folder string) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, "*.tmp")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%08x %s", checksum(text), text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(folder, indexFileName))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return m.removeOthers(folder)
}

func (m *indexFile) removeOthers(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		named := slices.ContainsFunc(m.Parts, func(p partInfo) bool { return p.Name == entry.Name() })
		// Earlier versions wrote segments.
		if named || !slices.Contains([]string{partSuffix, ".tmp", ".segment"}, filepath.Ext(entry.Name())) {
			continue
		}
		if failed := os.Remove(filepath.Join(folder, entry.Name())); !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// find returns the cells with the key, in log order.
func (x index) find(key uint64) ([]cell, error) {
	var found []cell
	for _, p := range x.parts {
		cells, err := p.find(key)
		if err != nil {
			return nil, err
		}
		found = append(found, cells...)
	}
	return found, nil
}

func (x index) close() error {
	var failed []error
	for _, p := range x.parts {
		failed = append(failed, p.close())
	}
	return errors.Join(failed...)
}
