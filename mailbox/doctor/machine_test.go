package doctor

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestInspectMachine(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "git"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	got := make(map[string]Finding)
	for _, f := range InspectMachine() {
		if f.Severity != SeverityOK && f.Hint == "" {
			t.Errorf("%s is %s and has no hint", f.Name, f.Severity)
		}
		got[f.Name] = f
	}
	if f := got["git"]; f.Severity != SeverityOK || f.Message != filepath.Join(folder, "git") {
		t.Errorf("git gives %+v, want its path", f)
	}
	if f := got["codex"]; f.Severity != SeveritySkipped || f.Message != "not on the PATH; optional, for turns run by Codex" {
		t.Errorf("a missing codex gives %+v", f)
	}
}
