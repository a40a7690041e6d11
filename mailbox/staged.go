package mailbox

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// stagedName says which copy of which message a staged file is. No part of it
// can hold an @.
type stagedName struct {
	id    schema.ID
	agent schema.AgentName
	box   Box
}

func (n stagedName) String() string {
	return string(n.id) + "@" + string(n.agent) + "@" + string(n.box)
}

// besideSuffix marks, in state/outgoing, a copy that is staged elsewhere: its
// destination is on another file system than the workspace.
const besideSuffix = "@beside"

// parseStagedName reads the name of an entry of state/outgoing.
func parseStagedName(name string) (parsed stagedName, beside, ok bool) {
	name, beside = strings.CutSuffix(name, besideSuffix)
	parts := strings.Split(name, "@")
	if len(parts) != 3 {
		return stagedName{}, false, false
	}
	parsed = stagedName{schema.ID(parts[0]), schema.AgentName(parts[1]), Box(parts[2])}
	_, err := schema.ParseID(parsed.id)
	ok = err == nil && parsed.agent.Valid() && (parsed.box == Inbox || parsed.box == Outbox)
	return parsed, beside, ok
}

// hiddenPrefix begins the names of what is on its way in a mailbox's folder.
// They do not end in .yaml: the reference implementation lists those.
const hiddenPrefix = ".oacp-"

// staged is where a copy waits to be published: in state/outgoing or, where
// its destination is on another file system, hidden beside the destination
// with an empty file in state/outgoing that tells of it.
type staged struct {
	dir    *durable.Dir
	name   string
	marker *durable.Dir
	mark   string
}

func newStaged(outgoing, destination *durable.Dir, name stagedName) staged {
	if outgoing.SameFileSystem(destination) {
		return staged{dir: outgoing, name: name.String()}
	}
	return staged{
		dir: destination, name: hiddenPrefix + name.String(),
		marker: outgoing, mark: name.String() + besideSuffix,
	}
}

// create writes the copy; the file is to be finished.
func (s staged) create(files fileSystem, data []byte) (*os.File, error) {
	if s.marker == nil {
		return files.create(s.dir, s.name, data)
	}
	if err := writeFile(files, s.marker, s.mark, nil); err != nil {
		return nil, err
	}
	file, err := files.create(s.dir, s.name, data)
	if err != nil {
		_, takeErr := files.take(s.marker, s.mark)
		err = errors.Join(err, takeErr)
	}
	return file, err
}

// An outbox copy is marked for one that was moved into its place whole: its modification time is MovedBack before
// it was written, less what is over a multiple of MovedStep. The file system sets the time of the file's last change
// when it is moved, so both can be compared on the clock of that file system, however coarse it is.
const (
	MovedBack = 20 * time.Millisecond
	MovedStep = time.Millisecond
)

// markMoved marks the copy, which is not published yet.
func (s staged) markMoved(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return s.dir.SetModified(s.name, info.ModTime().Add(-MovedBack).Truncate(MovedStep))
}

// publish consumes the copy; see durable.Dir.Publish.
func (s staged) publish(files fileSystem, to *durable.Dir, newName string) error {
	err := files.publish(s.dir, s.name, to, newName)
	if err == nil && s.marker != nil {
		// The copy is published whatever becomes of its mark: an error here
		// would say that it is not. Recover removes a mark that was left.
		_, _ = files.take(s.marker, s.mark)
	}
	return err
}

// take removes the copy and reports whether this call removed it.
func (s staged) take(files fileSystem) (bool, error) {
	took, err := files.take(s.dir, s.name)
	if s.marker != nil {
		_, markErr := files.take(s.marker, s.mark)
		err = errors.Join(err, markErr)
	}
	return took, err
}
