package powercut

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The folder of these tests holds the folders a and b, and in a the file old with the bytes "old".
const (
	folderA Node = iota + 1
	folderB
	oldFile
	newFile
)

func beforeCut() *Disk {
	d := newDisk()
	d.folders[Top]["a"], d.folders[Top]["b"] = folderA, folderB
	d.folders[folderA], d.folders[folderB] = map[string]Node{"old": oldFile}, map[string]Node{}
	d.files[oldFile] = []byte("old")
	return d
}

func add(folder Node, name string, node Node) Operation {
	return Operation{Kind: Add, Node: node, To: Entry{folder, name}}
}

func write(node Node, text string) Operation {
	return Operation{Kind: Write, Node: node, Data: []byte(text)}
}

func move(node, from Node, name string, to Node, newName string) Operation {
	return Operation{Kind: Move, Node: node, From: Entry{from, name}, To: Entry{to, newName}}
}

func remove(node, from Node, name string) Operation {
	return Operation{Kind: Remove, Node: node, From: Entry{from, name}}
}

func sync(node Node) Operation { return Operation{Kind: Sync, Node: node} }

// show returns the files of a disk, such as "a/old=old b/new=".
func show(d *Disk) string {
	var found []string
	for name, text := range d.Files() {
		if !strings.HasSuffix(name, "/") {
			found = append(found, name+"="+strings.ReplaceAll(text, "\x00", "0"))
		}
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

func TestModels(t *testing.T) {
	for _, test := range []struct {
		name          string
		done          []Operation
		ordered, weak []string
	}{
		{
			"a file that nobody synced", []Operation{add(folderB, "new", newFile), write(newFile, "text")},
			[]string{"a/old=old", "a/old=old b/new=", "a/old=old b/new=text"},
			[]string{"a/old=old", "a/old=old b/new=", "a/old=old b/new=te", "a/old=old b/new=0000", "a/old=old b/new=text"},
		},
		{
			"its bytes are synced", []Operation{add(folderB, "new", newFile), write(newFile, "text"), sync(newFile)},
			[]string{"a/old=old b/new=text"}, []string{"a/old=old", "a/old=old b/new=text"},
		},
		{
			"its name is synced", []Operation{add(folderB, "new", newFile), write(newFile, "text"), sync(folderB)},
			[]string{"a/old=old b/new=", "a/old=old b/new=text"},
			[]string{"a/old=old b/new=", "a/old=old b/new=te", "a/old=old b/new=0000", "a/old=old b/new=text"},
		},
		{
			"lines that are appended", []Operation{write(oldFile, "old, new")},
			[]string{"a/old=old", "a/old=old, new"}, []string{"a/old=old", "a/old=old, ", "a/old=old00000", "a/old=old, new"},
		},
		{
			"names of two folders", []Operation{add(folderA, "x", newFile), remove(newFile, folderA, "x"), add(folderB, "y", newFile+1)},
			[]string{"a/old=old", "a/old=old a/x=", "a/old=old b/y="},
			[]string{"a/old=old", "a/old=old a/x=", "a/old=old b/y=", "a/old=old a/x= b/y="},
		},
		{
			"a move between folders", []Operation{move(oldFile, folderA, "old", folderB, "moved")},
			[]string{"a/old=old", "b/moved=old"}, []string{"a/old=old", "b/moved=old", "a/old=old b/moved=old"},
		},
		{
			"the old folder is synced", []Operation{move(oldFile, folderA, "old", folderB, "moved"), sync(folderA)},
			[]string{"b/moved=old"}, []string{"b/moved=old"},
		},
		{
			"the new folder is synced", []Operation{move(oldFile, folderA, "old", folderB, "moved"), sync(folderB)},
			[]string{"b/moved=old"}, []string{"b/moved=old", "a/old=old b/moved=old"},
		},
		{
			"a move into a new folder", []Operation{
				{Kind: Add, Node: newFile, To: Entry{Top, "c"}, IsFolder: true}, move(oldFile, folderA, "old", newFile, "moved")},
			[]string{"a/old=old", "c/moved=old"}, []string{"a/old=old", "c/moved=old", "a/old=old c/moved=old"},
		},
		{
			"a file that replaces another", []Operation{
				add(folderA, ".new", newFile), write(newFile, "new"), sync(newFile), move(newFile, folderA, ".new", folderA, "old")},
			[]string{"a/.new=new a/old=old", "a/old=new"}, []string{"a/old=old", "a/.new=new a/old=old", "a/old=new"},
		},
	} {
		for _, check := range []struct {
			model Model
			want  []string
		}{{Ordered, test.ordered}, {Weak, test.weak}} {
			found := map[string]bool{}
			c := check.model.choices(beforeCut(), test.done)
			all, left := c.all(1000)
			for answers := range all {
				found[show(c.state(answers))] = true
			}
			slices.Sort(check.want)
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, check.want) || left != 0 {
				t.Errorf("%s, %s: %q (%d left out), want %q", test.name, check.model.Name, got, left, check.want)
			}
		}
	}
}

// TestBound samples the states of many files. The extremes are in every sample, and the sample is the same each time.
func TestBound(t *testing.T) {
	var done []Operation
	for i := range Node(12) {
		done = append(done, add(folderB, fmt.Sprint("new", i), newFile+i), write(newFile+i, "text"))
	}
	for _, bound := range []int{2, 10, 300} {
		c := Weak.choices(beforeCut(), done)
		samples := make([][]string, 2)
		for i := range samples {
			all, left := c.all(bound)
			for answers := range all {
				samples[i] = append(samples[i], show(c.state(answers)))
			}
			if left == 0 {
				t.Error("nothing is left out")
			}
		}
		most := beforeCut()
		for _, o := range done {
			most.apply(o)
		}
		if len(samples[0]) != bound || !slices.Equal(samples[0], samples[1]) ||
			!slices.Contains(samples[0], "a/old=old") || !slices.Contains(samples[0], show(most)) {
			t.Errorf("%d states of at most %d, want as many, the same twice, with both extremes", len(samples[0]), bound)
		}
	}
}
