package main

import (
	"bufio"
	"io"
	"testing"
)

// BenchmarkStart is what every command costs before it does anything: the
// commands are made, and the command line is taken apart.
func BenchmarkStart(b *testing.B) {
	s := processStreams()
	s.out = bufio.NewWriter(io.Discard)
	args := []string{"version", "--json"}
	b.ReportAllocs()
	for b.Loop() {
		if exit := run(b.Context(), args, s); exit != exitDone {
			b.Fatalf("exit status is %d, want 0", exit)
		}
	}
}
