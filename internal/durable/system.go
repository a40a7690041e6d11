package durable

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
)

// FileSystem is what delivery does to files, and nothing else. Tests put faults behind it.
type FileSystem interface {
	// Create writes a new file whole and claims it; see Dir.Create.
	Create(dir *Dir, name string, data []byte) (*os.File, error)
	// SyncFile makes a file durable, and SyncDir the names in a folder.
	SyncFile(file *os.File) error
	SyncDir(dir *Dir) error
	// Publish consumes a name; see Dir.Publish, and Dir.PublishUnique for a unique new name.
	Publish(from *Dir, name string, to *Dir, newName string, unique bool) error
	// Take removes a file and reports whether this call removed it.
	Take(dir *Dir, name string) (bool, error)
	// Origin names the processes whose claims this one sees; see Dir.Origin.
	Origin(dir *Dir) (string, error)
}

// Disk is the file system itself. Without Sync, it skips every fsync, and nothing else.
type Disk struct{ Sync bool }

// Create implements FileSystem.
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

// SyncFile implements FileSystem.
func (d Disk) SyncFile(file *os.File) error {
	if !d.Sync {
		return nil
	}
	return syncFile(file)
}

// SyncDir implements FileSystem.
func (d Disk) SyncDir(dir *Dir) error {
	if !d.Sync {
		return nil
	}
	return dir.Sync()
}

// Publish implements FileSystem.
func (Disk) Publish(from *Dir, name string, to *Dir, newName string, unique bool) error {
	if unique {
		return from.PublishUnique(name, to, newName)
	}
	return from.Publish(name, to, newName)
}

// Take implements FileSystem.
func (Disk) Take(dir *Dir, name string) (bool, error) { return dir.Take(name) }

// Origin implements FileSystem.
func (Disk) Origin(dir *Dir) (string, error) { return dir.Origin() }

// AddFile writes a new file, and makes it and its name durable. The name never shows a part of the
// data: until the file is whole, it has a hidden one. A file that cannot be made durable is taken
// back.
func AddFile(files FileSystem, dir *Dir, name string, data []byte) error {
	hidden := ".tmp-" + strconv.FormatUint(rand.Uint64(), 36)
	file, err := files.Create(dir, hidden, data)
	if err != nil {
		return err
	}
	if err = errors.Join(files.SyncFile(file), file.Close()); err == nil {
		err = files.Publish(dir, hidden, dir, name, true)
	}
	if err == nil {
		hidden, err = name, files.SyncDir(dir)
	}
	if err != nil {
		_, takeErr := files.Take(dir, hidden)
		err = errors.Join(err, takeErr)
	}
	return err
}

// WriteFile is AddFile, but writes in place: on every file system, of those who use a name one
// succeeds.
func WriteFile(files FileSystem, dir *Dir, name string, data []byte) error {
	file, err := files.Create(dir, name, data)
	if err != nil {
		return err
	}
	err = errors.Join(files.SyncFile(file), file.Close())
	if err == nil {
		err = files.SyncDir(dir)
	}
	if err != nil {
		_, takeErr := files.Take(dir, name)
		err = errors.Join(err, takeErr)
	}
	return err
}
