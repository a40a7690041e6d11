package validate

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const messages = "../testdata/messages"

// goldenFiles returns the message files in a folder of the golden messages.
func goldenFiles(t testing.TB, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(messages, folder, "*.yaml"))
	if err != nil || len(files) < 15 {
		t.Fatalf("%d golden messages in %s: %v", len(files), folder, err)
	}
	return files
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// compareGolden compares the output with the golden file.
func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Split(string(readFile(t, name)), "\n")
	for i, line := range strings.Split(string(got), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s:%d: got %q, want %q (-update rewrites the file)", name, i+1, line, want[min(i, len(want)-1)])
		}
	}
	if n := bytes.Count(got, []byte("\n")) + 1; n != len(want) {
		t.Errorf("%s: got %d lines, want %d", name, n, len(want))
	}
}

// TestValidMessages checks that every function accepts the valid golden messages, and that they are
// the same when written and read again.
func TestValidMessages(t *testing.T) {
	for _, file := range goldenFiles(t, "valid") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data := readFile(t, file)
			m, findings := Bytes(file, data)
			if len(findings) > 0 {
				t.Fatalf("Bytes: %v, want nothing", findings)
			}
			if findings := Message(m); len(findings) > 0 {
				t.Errorf("Message: %v, want nothing", findings)
			}
			read, err := Read(data)
			if err != nil || !reflect.DeepEqual(read, m) {
				t.Errorf("Read: %+v, %v, want %+v", read, err, m)
			}
			m.Auth, m.File = "", ""
			encoded, err := schema.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			if again, findings := Bytes("", encoded); len(findings) > 0 || !reflect.DeepEqual(again, m) {
				t.Errorf("written and read again: %+v, %v, want %+v", again, findings, m)
			}
		})
	}
}

// TestInvalidMessages compares the findings on each invalid golden message, as people see them,
// with the text file next to it.
func TestInvalidMessages(t *testing.T) {
	for _, file := range goldenFiles(t, "invalid") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data := readFile(t, file)
			_, findings := Bytes(filepath.Base(file), data)
			if !findings.HasErrors() {
				t.Errorf("Bytes: %v, want an error", findings)
			}
			if m, err := Read(data); err == nil {
				t.Errorf("Read: %+v, want an error", m)
			}
			result := Result{Files: []File{{Name: filepath.Base(file), Diagnostics: findings}}}
			var text bytes.Buffer
			if err := result.WriteText(&text, false); err != nil {
				t.Fatal(err)
			}
			compareGolden(t, strings.TrimSuffix(file, ".yaml")+".txt", text.Bytes())
		})
	}
}

// TestReports compares every report on the invalid messages with its golden file.
func TestReports(t *testing.T) {
	t.Chdir(messages)
	result, err := Files(context.Background(), []string{"invalid", "valid/task_request.yaml"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	reports := map[string]func(*bytes.Buffer) error{
		"report.json":   func(b *bytes.Buffer) error { return result.WriteJSON(b) },
		"report.github": func(b *bytes.Buffer) error { return result.WriteGitHub(b) },
	}
	for name, write := range reports {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		compareGolden(t, filepath.Join("reports", name), out.Bytes())
	}
}
