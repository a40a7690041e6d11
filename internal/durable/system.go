package durable

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
)

// FileSystem has the operations on files that a delivery needs. Tests inject faults through it.
type FileSystem interface {
	// Create writes a new file whole and claims it; see Dir.Create.
	Create(dir *Dir, name string, data []byte) (*os.File, error)
	// SyncFile makes a file durable, and SyncDir the names in a folder.
	SyncFile(file *os.File) error
	SyncDir(dir *Dir) error
	// Publish moves a file and replaces none; see Dir.Publish.
	Publish(from *Dir, name string, to *Dir, newName string, unique bool) error
	// Take removes a file and reports whether this call removed it.
	Take(dir *Dir, name string) (bool, error)
	// Origin identifies the processes whose claims this one sees; see Dir.Origin.
	Origin(dir *Dir) (string, error)
}

// Disk is the file system itself. Without Sync, it skips every fsync, and nothing else.
type Disk struct{ Sync bool }

func (d Disk) Create(dir *Dir, name string, data []byte) (*os.File, error) {
	file, err := dir.Create(name, data)
	if err != nil {
		return nil, err
	}
	if d.Sync {
		startWriteback(file)
	}
	return file, nil
}

func (d Disk) SyncFile(file *os.File) error {
	if !d.Sync {
		return nil
	}
	return syncFile(file)
}

func (d Disk) SyncDir(dir *Dir) error {
	if !d.Sync {
		return nil
	}
	return dir.Sync()
}

func (Disk) Publish(from *Dir, name string, to *Dir, newName string, unique bool) error {
	return from.Publish(name, to, newName, unique)
}

func (Disk) Take(dir *Dir, name string) (bool, error) { return dir.Take(name) }

func (Disk) Origin(dir *Dir) (string, error) { return dir.Origin() }

// AddFile writes a new file, and makes it and its name durable. The file has a hidden name until it
// is complete. AddFile removes a file that it cannot make durable.
func AddFile(files FileSystem, dir *Dir, name string, data []byte) error {
	return addFile(files, dir, temporaryMark+strconv.FormatUint(rand.Uint64(), 36), name, data)
}

// WriteFile is AddFile, but writes under the name itself: if several processes write a file of one
// name, exactly one succeeds, on every file system.
func WriteFile(files FileSystem, dir *Dir, name string, data []byte) error {
	return addFile(files, dir, name, name, data)
}

// addFile writes a new file under its first name.
func addFile(files FileSystem, dir *Dir, first, name string, data []byte) error {
	file, err := files.Create(dir, first, data)
	if err != nil {
		return err
	}
	err = errors.Join(files.SyncFile(file), file.Close())
	if err == nil && first != name {
		if err = files.Publish(dir, first, dir, name, true); err == nil {
			first = name
		}
	}
	if err == nil {
		err = files.SyncDir(dir)
	}
	if err != nil {
		_, takeErr := files.Take(dir, first)
		err = errors.Join(err, takeErr)
	}
	return err
}
