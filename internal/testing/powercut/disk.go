package powercut

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Node is the identity of a file or folder, whatever its names are. The folder that is recorded is the node Top.
type Node int

// Top is the node of the recorded folder.
const Top Node = 0

// Disk is what a folder holds. The zero Disk is not usable; see ReadDisk.
type Disk struct {
	// folders has the entries of each folder, and files the bytes of each file, which nobody changes.
	folders map[Node]map[string]Node
	files   map[Node][]byte
	// links are the files that are symbolic links; their bytes are the target.
	links map[Node]bool
}

func newDisk() *Disk {
	return &Disk{folders: map[Node]map[string]Node{Top: {}}, files: map[Node][]byte{}, links: map[Node]bool{}}
}

// ReadDisk reads a folder.
func ReadDisk(folder string) (*Disk, error) {
	d := newDisk()
	nodes := map[string]Node{".": Top}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		node := Node(len(nodes))
		nodes[name] = node
		d.folders[nodes[path.Dir(name)]][path.Base(name)] = node
		switch {
		case entry.IsDir():
			d.folders[node] = map[string]Node{}
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(filepath.Join(folder, name))
			d.files[node], d.links[node] = []byte(target), true
			return err
		case entry.Type().IsRegular():
			d.files[node], err = os.ReadFile(filepath.Join(folder, name))
		default: // sockets and pipes have nothing to lose
			delete(d.folders[nodes[path.Dir(name)]], path.Base(name))
		}
		return err
	})
	return d, err
}

func (d *Disk) clone() *Disk {
	c := &Disk{folders: make(map[Node]map[string]Node, len(d.folders)), files: maps.Clone(d.files), links: maps.Clone(d.links)}
	for node, entries := range d.folders {
		c.folders[node] = maps.Clone(entries)
	}
	return c
}

// find returns the node at a path below the folder.
func (d *Disk) find(name string) (Node, bool) {
	node := Top
	if name == "." {
		return node, true
	}
	for part := range strings.SplitSeq(name, "/") {
		next, ok := d.folders[node][part]
		if !ok {
			return 0, false
		}
		node = next
	}
	return node, true
}

// Files returns the bytes of each file and the target of each link by path, and "" for each folder, whose path ends in a
// slash: the form of check.Contents.
func (d *Disk) Files() map[string]string {
	found := make(map[string]string)
	var visit func(Node, string)
	visit = func(folder Node, prefix string) {
		for name, node := range d.folders[folder] {
			if _, ok := d.folders[node]; ok {
				found[prefix+name+"/"] = ""
				visit(node, prefix+name+"/")
			} else {
				found[prefix+name] = string(d.files[node])
			}
		}
	}
	visit(Top, "")
	return found
}

// sum identifies what the disk holds.
func (d *Disk) sum() [sha256.Size]byte {
	files := d.Files()
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(hash, "%q %d %s\n", name, len(files[name]), files[name])
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

// Write writes what the disk holds to a folder, which must not exist. All files were last changed at the given time.
func (d *Disk) Write(folder string, changed time.Time) error { return d.write(Top, folder, changed) }

func (d *Disk) write(node Node, folder string, changed time.Time) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	for name, node := range d.folders[node] {
		to := filepath.Join(folder, name)
		var err error
		switch _, isFolder := d.folders[node]; {
		case isFolder:
			err = d.write(node, to, changed)
		case d.links[node]:
			err = os.Symlink(string(d.files[node]), to)
		default:
			err = errors.Join(os.WriteFile(to, d.files[node], 0o644), os.Chtimes(to, changed, changed))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
