package main

import (
	"bufio"
	"io"
	"testing"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
)

// BenchmarkStart is what every command costs before it does anything: the
// commands are made, and the command line is taken apart.
func BenchmarkStart(b *testing.B) {
	s := command.ProcessStreams()
	s.Out = bufio.NewWriter(io.Discard)
	args := []string{"version", "--json"}
	b.ReportAllocs()
	for b.Loop() {
		if exit := run(b.Context(), args, s); exit != failure.ExitDone {
			b.Fatalf("exit status is %d, want 0", exit)
		}
	}
}
