package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/oacp-go/oacp/internal/durable"
)

// index is the index of a log, as read from its folder. It covers the log up to an offset. The file
// index.json names the parts (*.part), which hold a cell for each record. Parts are written once, so
// replacing index.json switches from one complete index to the next.
//
// A hash of samples of the log's bytes in index.json tells which log the index belongs to. A cell is used only
// after a comparison with its line in the log. If they differ, the log is read without the index.
//
// New cells go into a new part, together with the cells of those older parts that are not much larger.
// This keeps the number of parts small and rewrites each cell only a few times.
type index struct {
	extent
	parts []*part
}

// extent says how far a log was read and counts what it holds up to there.
type extent struct {
	End    int64  `json:"end"`   // the offset behind the last line
	Lines  int64  `json:"lines"` // the number of lines
	Status Status `json:"status"`
}

const (
	indexFileName = "index.json"
	// maxIndexFile bounds the size of index.json, which grows only with the number of agents.
	maxIndexFile = 16 << 20
	// A part is merged with newer cells unless it has at least mergeRatio times as many.
	mergeRatio = 4
)

// errDamaged reports that the index is not one of this package, or does not match the log.
var errDamaged = errors.New("index does not match the log")

// indexFile is index.json.
type indexFile struct {
	extent
	Fingerprint string     `json:"fingerprint"`
	Parts       []partInfo `json:"parts"`
}

// loadIndex reads the index in folder of the log, which has size bytes. If there is no usable index, it
// returns an empty one. Parts are opened when they are first used.
func loadIndex(folder string, log io.ReaderAt, size int64) (x index, err error) {
	data, err := durable.ReadPath(filepath.Join(folder, indexFileName), maxIndexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return x, fmt.Errorf("%s: %w", folder, err)
	}
	var m indexFile
	if err := json.Unmarshal(data, &m); err != nil {
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
		if info.Name != filepath.Base(info.Name) || info.Cells < 1 {
			return index{}, fmt.Errorf("%w: invalid part %q", errDamaged, info.Name)
		}
		x.parts = append(x.parts, &part{partInfo: info, folder: folder})
	}
	return x, nil
}

// fingerprint hashes samples of the log's first end bytes, which include the last ones. It
// distinguishes logs and detects most edits in place, at a cost that does not depend on the log's length.
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

// extend writes the index that covers the log up to to.End to folder, and returns it. The cells are
// those of the lines that x does not cover. The caller holds the log's lock and no longer uses x.
func (x index) extend(folder string, log io.ReaderAt, cells []cell, to extent) (index, error) {
	for len(x.parts) > 0 && x.parts[len(x.parts)-1].Cells < mergeRatio*len(cells) {
		last := x.parts[len(x.parts)-1]
		older, err := last.cells(0, last.Cells)
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
	m := indexFile{extent: to}
	var err error
	if m.Fingerprint, err = fingerprint(log, to.End); err != nil {
		return index{}, err
	}
	if len(cells) > 0 {
		written, err := writePart(folder, cells)
		if err != nil {
			return index{}, err
		}
		x.parts = append(x.parts, &part{partInfo: written, folder: folder})
	}
	x.extent = to
	for _, p := range x.parts {
		m.Parts = append(m.Parts, p.partInfo)
	}
	text, err := json.Marshal(m)
	if err == nil {
		err = durable.Replace(filepath.Join(folder, indexFileName), text, 0o600)
	}
	if err != nil {
		return index{}, err
	}
	return x, m.removeOthers(folder)
}

// removeOthers removes the parts that index.json does not name.
func (m *indexFile) removeOthers(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		named := slices.ContainsFunc(m.Parts, func(p partInfo) bool { return p.Name == entry.Name() })
		if named || filepath.Ext(entry.Name()) != partSuffix {
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
