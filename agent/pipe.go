package agent

import (
	"bufio"
	"errors"
	"io"
	"os"
	"time"

	"github.com/oacp-go/oacp/internal/processgroup"
)

// An outlet is a pipe that a program writes its output to. The pipe may never end: processes outside
// the program's group may hold it open and write to it forever. So once the program has ended, what
// the pipe holds is read, and no more.
type outlet struct {
	pipe, theirs *os.File
	process      *processgroup.Process
	// late counts the reads since the program has ended.
	late int
}

const (
	// maxLate is how many reads empty a pipe, which holds at most a megabyte.
	maxLate = 17
	// lateLimit is how long such a read may take. What the program printed is there at once.
	lateLimit = 200 * time.Millisecond
)

// newOutlet makes a pipe for an output of a command.
func newOutlet(output *io.Writer) (*outlet, error) {
	pipe, theirs, err := os.Pipe()
	*output = theirs
	return &outlet{pipe: pipe, theirs: theirs}, err
}

func (o *outlet) close() error { return errors.Join(o.pipe.Close(), o.theirs.Close()) }

// read has the output of a started program read, and closes the pipe.
func (o *outlet) read(process *processgroup.Process, take func(io.Reader)) {
	_ = o.theirs.Close() // the program has it
	o.process = process
	take(bufio.NewReaderSize(o, 64<<10))
	_ = o.pipe.Close() // nothing was written to it
}

// expire limits the time of a read: the current one when the program has ended, or the next.
func (o *outlet) expire() {
	if errors.Is(o.pipe.SetReadDeadline(time.Now().Add(lateLimit)), os.ErrNoDeadline) {
		// Some systems cannot. Output that comes later is lost.
		time.AfterFunc(lateLimit, func() { _ = o.pipe.Close() })
	}
}

// Read reads from the pipe. All errors are its end.
func (o *outlet) Read(data []byte) (int, error) {
	select {
	case <-o.process.Done():
		if o.late++; o.late > maxLate {
			return 0, io.EOF
		}
		o.expire()
	default:
	}
	n, err := o.pipe.Read(data)
	if err != nil {
		return n, io.EOF
	}
	return n, nil
}
