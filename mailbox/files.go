package mailbox

import (
	"errors"
	"os"

	"github.com/oacp-go/oacp/internal/durable"
)

// fileSystem is what delivery does to files, and nothing else. Tests put faults behind it.
type fileSystem interface {
	// create writes a new file whole; finish makes it durable.
	create(dir *durable.Dir, name string, data []byte) (*os.File, error)
	finish(file *os.File) error
	syncDir(dir *durable.Dir) error
	// publish consumes a name; see durable.Dir.Publish.
	publish(from *durable.Dir, name string, to *durable.Dir, newName string) error
	// take removes a file and reports whether this call removed it.
	take(dir *durable.Dir, name string) (bool, error)
}

// disk is the file system itself.
type disk struct{ sync bool }

func (d disk) create(dir *durable.Dir, name string, data []byte) (*os.File, error) {
	file, err := dir.Create(name, data)
	if err == nil && d.sync {
		durable.StartWriteback(file)
	}
	return file, err
}

func (d disk) finish(file *os.File) error {
	if !d.sync {
		return file.Close()
	}
	return durable.Finish(file)
}

func (d disk) syncDir(dir *durable.Dir) error {
	if !d.sync {
		return nil
	}
	return dir.Sync()
}

func (d disk) publish(from *durable.Dir, name string, to *durable.Dir, newName string) error {
	return from.Publish(name, to, newName)
}

func (d disk) take(dir *durable.Dir, name string) (bool, error) { return dir.Take(name) }

// writeFile writes a new file and makes it and its name durable. A file that it cannot make durable
// is taken back.
func writeFile(files fileSystem, dir *durable.Dir, name string, data []byte) error {
	file, err := files.create(dir, name, data)
	if err != nil {
		return err
	}
	if err = files.finish(file); err == nil {
		err = files.syncDir(dir)
	}
	if err != nil {
		_, takeErr := files.take(dir, name)
		err = errors.Join(err, takeErr)
	}
	return err
}
