package durable

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// stepping is the disk, which calls a function before each step. The step fails with its error.
type stepping struct {
	Disk
	step func() error
}

func (s stepping) Create(dir *Dir, name string, data []byte) (*os.File, error) {
	if err := s.step(); err != nil {
		return nil, err
	}
	return s.Disk.Create(dir, name, data)
}

func (s stepping) SyncFile(file *os.File) error {
	return errors.Join(s.step(), s.Disk.SyncFile(file))
}

func (s stepping) SyncDir(dir *Dir) error {
	return errors.Join(s.step(), s.Disk.SyncDir(dir))
}

func (s stepping) Publish(from *Dir, name string, to *Dir, newName string, unique bool) error {
	if err := s.step(); err != nil {
		return err
	}
	return s.Disk.Publish(from, name, to, newName, unique)
}

// TestAddFile lets each step fail. Nobody sees a part of the file, and a failure leaves nothing behind.
func TestAddFile(t *testing.T) {
	const steps = 4
	failure := errors.New("the disk does not answer")
	for failing := range steps + 1 {
		d, _ := openDirs(t)
		done := 0
		files := stepping{Disk: Disk{Sync: true}, step: func() error {
			if data, err := d.ReadFile("a", 100); !errors.Is(err, fs.ErrNotExist) && string(data) != "text" {
				t.Errorf("before step %d the file holds %q (%v)", done, data, err)
			}
			if done++; done == failing {
				return failure
			}
			return nil
		}}
		switch err := AddFile(files, d, "a", []byte("text")); {
		case failing == 0:
			if err != nil || done != steps {
				t.Errorf("adding gave %v after %d steps, want %d", err, done, steps)
			}
			wantContent(t, d, "a", "text")
			if err := AddFile(Disk{}, d, "a", []byte("other")); !errors.Is(err, fs.ErrExist) {
				t.Errorf("adding it again gave %v, want ErrExist", err)
			}
			wantContent(t, d, "a", "text")
			wantNames(t, d, "a")
		case !errors.Is(err, failure):
			t.Errorf("step %d failed: adding gave %v, want its error", failing, err)
		default:
			wantNames(t, d)
		}
	}
}
