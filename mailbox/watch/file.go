package watch

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// lookAll looks at the files on all cores.
func (t *watched) lookAll(ctx context.Context, dir *durable.Dir, names []string) ([]look, error) {
	looks := make([]look, len(names))
	err := eachOnAllCores(ctx, len(names), func(i int) { looks[i] = t.lookAt(dir, names[i]) })
	return looks, err
}

func (t *watched) lookAt(dir *durable.Dir, name string) look {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return look{state: fileGone, entry: t.entry(name)}
	}
	if err != nil {
		l := look{state: fileBad, entry: t.entry(name)}
		l.entry.Err = err
		return l
	}
	version := versionOf(info)
	l, known := t.recall(name, version)
	if !known || t.hinted[name] {
		l = t.read(dir, name, version)
	}
	if l.state == fileMessage && !l.moving && time.Since(version.Modified) < oldFile {
		l.delivered = t.isDelivered(l.entry.Message, name, version.Size)
	}
	return l
}

// read reads a file that was of the version just before.
func (t *watched) read(dir *durable.Dir, name string, version fileVersion) look {
	l := look{state: fileMessage, version: version, entry: readEntry(dir, t.agent, mailbox.Inbox, name)}
	info, err := dir.Lstat(name)
	switch {
	case errors.Is(l.entry.Err, fs.ErrNotExist) || errors.Is(err, fs.ErrNotExist):
		return look{state: fileGone, entry: t.entry(name)}
	case l.entry.Err != nil:
		l.state, l.entry.Message = fileBad, nil
	}
	l.moving = err != nil || !versionOf(info).equal(version)
	return l
}

func versionOf(info fs.FileInfo) fileVersion {
	return fileVersion{Modified: info.ModTime().Round(0), Size: info.Size()}
}

// isDelivered reports whether the sender's outbox holds a copy of the same
// size: the copy is put there whole, and a file that is being written in the
// inbox is smaller.
func (t *watched) isDelivered(m *schema.Message, name string, size int64) bool {
	sent := func(name string) bool {
		info, err := t.workspace.Root().Lstat(mailbox.BoxName(m.From, mailbox.Outbox) + "/" + name)
		return err == nil && info.Mode().IsRegular() && info.Size() == size
	}
	if sent(name) || sent(m.FileName()) {
		return true
	}
	long, err := m.LongFileName()
	return err == nil && sent(long)
}
