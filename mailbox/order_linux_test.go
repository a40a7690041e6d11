package mailbox

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/oacp-go/oacp/internal/durable"
)

// ordered is the disk and checks the order of its operations: when a copy in an outbox is
// published, which is the commit, every new name must have been synced.
type ordered struct {
	durable.Disk
	t     *testing.T
	mutex sync.Mutex
	// unsynced holds the folders with names that are not durable, and files the files that are not.
	unsynced, files map[string]bool
	commits         int
}

func newOrdered(t *testing.T) *ordered {
	return &ordered{Disk: durable.Disk{Sync: true}, t: t, unsynced: make(map[string]bool), files: make(map[string]bool)}
}

func (o *ordered) Create(dir *durable.Dir, name string, data []byte) (*os.File, error) {
	file, err := o.Disk.Create(dir, name, data)
	if err == nil {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		o.unsynced[dir.Path("")], o.files[file.Name()] = true, true
	}
	return file, err
}

func (o *ordered) SyncFile(file *os.File) error {
	name := file.Name()
	err := o.Disk.SyncFile(file)
	o.mutex.Lock()
	defer o.mutex.Unlock()
	delete(o.files, name)
	return err
}

func (o *ordered) SyncDir(dir *durable.Dir) error {
	err := o.Disk.SyncDir(dir)
	o.mutex.Lock()
	defer o.mutex.Unlock()
	delete(o.unsynced, dir.Path(""))
	return err
}

func (o *ordered) Publish(from *durable.Dir, name string, to *durable.Dir, newName string, unique bool) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, left := range []map[string]bool{o.unsynced, o.files} {
		for path := range left {
			if strings.HasSuffix(path, "inbox") && strings.HasSuffix(to.Path(""), "inbox") {
				continue // all inboxes are synced at the end
			}
			o.t.Errorf("%s is published while %s is not durable", to.Path(newName), path)
		}
	}
	err := o.Disk.Publish(from, name, to, newName, unique)
	if err != nil {
		return err
	}
	o.unsynced[to.Path("")] = true
	if strings.HasSuffix(to.Path(""), "outbox") {
		o.commits++
	}
	return nil
}

// TestEverythingIsDurableBeforeTheCommit also checks that outbox copies come before inbox copies.
func TestEverythingIsDurableBeforeTheCommit(t *testing.T) {
	for _, d := range deliveries {
		t.Run(d.name, func(t *testing.T) {
			w := newWorkspace(t, "claude", "codex", "gemini")
			o := newOrdered(t)
			w.files = o
			if _, err := d.deliver(t, w); err != nil {
				t.Fatal(err)
			}
			if o.commits != 1 || len(o.unsynced) != 0 {
				t.Errorf("%d commits, and %v are not durable at the end; want one commit and no such names", o.commits, o.unsynced)
			}
		})
	}
}
