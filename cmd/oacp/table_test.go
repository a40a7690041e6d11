package main

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/oacp-go/oacp/internal/command"
)

func TestTable(t *testing.T) {
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, "#  Name    Subject\n1  日本語  a subject of more than sixteen columns\n2  b\n"},
		{30, "#  Name    Subject\n1  日本語  a subject of more …\n2  b\n"},
	} {
		var out bytes.Buffer
		s := &command.Streams{Out: bufio.NewWriter(&out), Width: test.width}
		table := newTable(s, row{"#", "Name", "Subject"})
		table.add(1, "日本語", "a subject of more than sixteen columns")
		table.add(2, "b", "")
		table.print()
		if err := s.Out.Flush(); err != nil || out.String() != test.want {
			t.Errorf("%d columns: got\n%swant\n%s", test.width, out.String(), test.want)
		}
	}
}
