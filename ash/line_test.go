package ash

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/iotest"
	"time"
)

// pieces reads data in pieces of the given sizes, over and over.
type pieces struct {
	data  []byte
	sizes []byte
	next  int
}

func (p *pieces) Read(buffer []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	size := 1
	if len(p.sizes) > 0 {
		size += int(p.sizes[p.next%len(p.sizes)])
		p.next++
	}
	n := copy(buffer[:min(size, len(buffer))], p.data)
	p.data = p.data[n:]
	return n, nil
}

func FuzzLineReader(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n\n  \nth"), []byte{0})
	f.Add([]byte("é€😀\n\n"), []byte{0, 2})
	f.Add(append(bytes.Repeat([]byte("x"), 3*readBuffer), '\n'), []byte{255})
	f.Fuzz(func(t *testing.T, data, sizes []byte) {
		reader := newLineReader(&pieces{data: data, sizes: sizes})
		whole := bytes.Split(data, []byte("\n"))
		rest := whole[len(whole)-1]
		for _, want := range whole[:len(whole)-1] {
			if len(trimSpace(want)) == 0 {
				continue
			}
			if got, err := reader.next(); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("got %q, error %v, want %q", got, err, want)
			}
		}
		want := io.EOF
		if len(rest) > 0 {
			want = io.ErrUnexpectedEOF
		}
		if got, err := reader.next(); got != nil || !errors.Is(err, want) {
			t.Fatalf("at the end: got %q, error %v, want %v", got, err, want)
		}
	})
}

func TestLineReaderLimit(t *testing.T) {
	for _, test := range []struct {
		name   string
		length int
		want   error
	}{
		{"longest line", MaxLine, nil},
		{"too long by one", MaxLine + 1, errLineTooLong},
	} {
		t.Run(test.name, func(t *testing.T) {
			line := bytes.Repeat([]byte("x"), test.length)
			reader := newLineReader(io.MultiReader(bytes.NewReader(line), bytes.NewReader([]byte("\n"))))
			got, err := reader.next()
			if !errors.Is(err, test.want) || (err == nil) != bytes.Equal(got, line) {
				t.Errorf("got %d bytes, error %v, want error %v", len(got), err, test.want)
			}
		})
	}
}

// TestLineReaderBounded feeds an endless line. The test ends only if the reader stops at the limit;
// the reader must hold no more than twice that.
func TestLineReaderBounded(t *testing.T) {
	endless := &counter{}
	if _, err := newLineReader(endless).next(); !errors.Is(err, errLineTooLong) {
		t.Errorf("got %v, want %v", err, errLineTooLong)
	}
	if endless.read > MaxLine+2*readBuffer {
		t.Errorf("read %d bytes of an overlong line, want about %d", endless.read, MaxLine)
	}
}

type counter struct{ read int }

func (c *counter) Read(buffer []byte) (int, error) {
	c.read += len(buffer)
	return len(buffer), nil // zero bytes, and never a line feed
}

func TestLineReaderError(t *testing.T) {
	broken := errors.New("broken")
	reader := newLineReader(io.MultiReader(bytes.NewReader([]byte("a\nb")), iotest.ErrReader(broken)))
	if got, err := reader.next(); err != nil || string(got) != "a" {
		t.Fatalf("got %q, error %v, want %q", got, err, "a")
	}
	if got, err := reader.next(); !errors.Is(err, broken) {
		t.Errorf("got %q, error %v, want %v", got, err, broken)
	}
}

// deadlines is a connection that calls first before it sets its first deadline.
type deadlines struct {
	net.Conn
	first func()
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.first()
	return d.Conn.SetWriteDeadline(t)
}

// TestLineWriterHurry checks that a write that is about to begin does not replace the deadline of hurry.
func TestLineWriterHurry(t *testing.T) {
	near, far := net.Pipe() // nobody reads
	defer far.Close()
	conn := &deadlines{Conn: near}
	w := newLineWriter(conn, time.Hour)
	conn.first = func() {
		conn.first = func() {}
		w.hurry(time.Millisecond)
	}
	written := make(chan error, 1)
	go func() { written <- w.write(context.Background(), []byte("x\n")) }()
	if err := receive(t, written, "the end of the write"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want %v", err, os.ErrDeadlineExceeded)
	}
}
