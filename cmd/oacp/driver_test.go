package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/command"
)

// TestToolsNeedTheirProgram looks for oacp-mcp on a PATH without it.
func TestToolsNeedTheirProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for driver, want := range map[string]string{"": "", "exec": "", "claude": "claude runs without the tools of oacp: the program oacp-mcp is neither"} {
		var warned bytes.Buffer
		if tools := oacpTools(&command.Streams{Err: &warned}, driver); tools != nil {
			t.Errorf("driver %q has the tools %v, want none", driver, tools)
		}
		if got := warned.String(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("driver %q: warning %q, want %q", driver, got, want)
		}
	}
}
