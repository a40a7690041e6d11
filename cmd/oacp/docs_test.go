package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/validate"
)

// TestDocumentedMapping compares the tables of docs/mirror.md with the one in the code.
func TestDocumentedMapping(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "mirror.md"))
	if err != nil {
		t.Fatal(err)
	}
	messages := "| message | record | signal |\n|---|---|---|\n"
	records := "| record | signal | message | channel |\n|---|---|---|---|\n"
	for _, row := range convert.Mapping() {
		signal := code(row.Signal)
		switch {
		case row.Channel == "":
			messages += fmt.Sprintf("| %s | %s | %s |\n", code(row.Message), code(row.Record), signal)
		case row.Record == "":
			records += fmt.Sprintf("| any other | any | %s | %s |\n", code(row.Message), code(row.Channel))
		default:
			records += fmt.Sprintf("| %s | %s | %s | %s |\n", code(row.Record), signal, code(row.Message), code(row.Channel))
		}
	}
	for name, want := range map[string]string{"mapping of messages": messages, "mapping of records": records} {
		_, rest, ok := strings.Cut(string(page), "<!-- "+name+": checked by a test -->\n")
		got, _, closed := strings.Cut(rest, "<!-- end -->")
		if !ok || !closed || got != want {
			t.Errorf("docs/mirror.md, %s: want\n%s\ngot\n%s", name, want, got)
		}
	}
}

// TestDocumentedCommands compares the list of commands in the README with that of oacp help. With
// -update it writes the list.
func TestDocumentedCommands(t *testing.T) {
	path := filepath.Join("..", "..", "README.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), "<!-- oacp help: checked by a test -->\n")
	_, after, closed := strings.Cut(rest, "<!-- end -->")
	if !ok || !closed {
		t.Fatal("README.md has no place for the list of commands")
	}
	want := before + "<!-- oacp help: checked by a test -->\n```\n" + newSession(t, "").must(t, "help") + "```\n<!-- end -->" + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Error("README.md does not list the commands as oacp help does; go test ./cmd/oacp -run TestDocumentedCommands -update writes it")
	}
}

func code[Text ~string](text Text) string {
	if text == "" {
		return ""
	}
	return "`" + string(text) + "`"
}

// TestDocumentedService compares the units in docs/turns.md with the text around them and the exit
// statuses.
func TestDocumentedService(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "turns.md"))
	if err != nil {
		t.Fatal(err)
	}
	for begin, want := range map[string][]string{
		"```ini\n": {
			"WorkingDirectory=", "Environment=OACP_WORKSPACE=", "Environment=PATH=", "Restart=on-failure",
			fmt.Sprintf("RestartPreventExitStatus=%d", failure.ExitUsage), "KillMode=mixed",
		},
		"```xml\n": {"<key>WorkingDirectory</key>", "<key>OACP_WORKSPACE</key>", "<key>PATH</key>", "<key>KeepAlive</key>"},
	} {
		_, unit, _ := strings.Cut(string(page), begin)
		unit, _, _ = strings.Cut(unit, "```")
		for _, line := range want {
			if !strings.Contains(unit, line) {
				t.Errorf("docs/turns.md: the unit lacks %s:\n%s", line, unit)
			}
		}
	}
}

// TestDocumentedCodes compares the table of docs/exit-status.md with the codes in the sources.
func TestDocumentedCodes(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "exit-status.md"))
	if err != nil {
		t.Fatal(err)
	}
	explains := regexp.MustCompile(`(?s)Explain\(\) \(code, hint string\) \{(.*?)(?: \}\n|\n\}\n)`)
	returned := regexp.MustCompile(`return "([a-z_]+)"`)
	made := regexp.MustCompile(`(?:failure\.(?:New|Wrap)|refusal)\("([a-z_]+)"|\bCode: "([a-z_]+)"`)
	system := regexp.MustCompile(`(?m)^\t\{"([a-z_]+)", \[\]error`)
	codes := map[string]bool{}
	err = filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		matches := made.FindAllStringSubmatch(string(text), -1)
		for _, body := range explains.FindAllStringSubmatch(string(text), -1) {
			matches = append(matches, returned.FindAllStringSubmatch(body[1], -1)...)
		}
		if strings.HasSuffix(path, filepath.FromSlash("internal/failure/codes.go")) {
			matches = append(matches, system.FindAllStringSubmatch(string(text), -1)...)
		}
		for _, match := range matches {
			codes[strings.Join(match[1:], "")] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(codes) < 90 {
		t.Errorf("found %d codes, want at least 90: does this test still see them?", len(codes))
	}
	for code := range codes {
		if !strings.Contains(string(page), "`"+code+"`") {
			t.Errorf("docs/exit-status.md does not explain the code %s", code)
		}
	}
}

// TestDocumentedKeys checks that the rows of docs/json.md name the keys of what their commands print.
func TestDocumentedKeys(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, printed := range map[string]any{"version": command.Version{}, "validate": validate.Diagnostic{}, "recall": recalledJSON{}, "stop": stoppedJSON{}} {
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\|.*$").FindString(string(page))
		for _, field := range reflect.VisibleFields(reflect.TypeOf(printed)) {
			if key, _, _ := strings.Cut(field.Tag.Get("json"), ","); key != "" && !strings.Contains(row, "`"+key+"`") {
				t.Errorf("docs/json.md does not name the key %q of %s: %s", key, name, row)
			}
		}
	}
}
