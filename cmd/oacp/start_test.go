package main

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
)

// TestLinksNothingHeavy checks the packages that the program links, since every command pays for
// them at start. Commands that need a heavy package are separate programs.
func TestLinksNothingHeavy(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		for _, heavy := range []string{"net/http", "crypto/tls", "github.com/modelcontextprotocol/", "charm.land/bubbletea", "github.com/santhosh-tekuri/jsonschema"} {
			if path := strings.TrimSpace(line); strings.HasPrefix(path, heavy) {
				t.Errorf("oacp links %s", path)
			}
		}
	}
}

// BenchmarkStart measures the cost of every command before it does anything.
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
