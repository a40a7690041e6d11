package validate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFiles(t *testing.T) {
	folder := t.TempDir()
	message := func(id string) string {
		return "id: msg-20260313T1201Z-claude-" + id + "\nfrom: claude\nto: codex\ntype: question\n" +
			"created_at_utc: 2026-03-13T12:01:00Z\nsubject: s\nbody: b\n"
	}
	for name, text := range map[string]string{
		"1.yaml": message("aaa1"),
		"2.yaml": message("aaa2") + "subjekt: x\n",
		"3.yaml": message("aaa3"),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for m, err := range ReadFiles([]string{folder, "-", filepath.Join(folder, "absent")}, strings.NewReader(message("aaa4"))) {
		var invalid *InvalidError
		switch {
		case errors.As(err, &invalid):
			d := invalid.Diagnostics[0]
			got = append(got, filepath.Base(d.File)+":"+string(d.Rule))
		case err != nil:
			t.Errorf("want an InvalidError, got %v", err)
		default:
			got = append(got, string(m.ID[len(m.ID)-4:])+":"+string(m.Priority))
		}
	}
	if got, want := strings.Join(got, " "), "aaa1:P2 2.yaml:unknown-field aaa3:P2 aaa4:P2 absent:file-unreadable"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
	for _, err := range ReadFiles([]string{"-"}, nil) {
		if err == nil {
			t.Error("without standard input: want an error")
		}
	}
}
