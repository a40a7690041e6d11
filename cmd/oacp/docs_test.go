package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/convert"
)

// TestDocumentedMapping holds the tables of docs/bridge.md to the one in the
// code.
func TestDocumentedMapping(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "bridge.md"))
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
			t.Errorf("docs/bridge.md, %s: want\n%s\ngot\n%s", name, want, got)
		}
	}
}

func code[Text ~string](text Text) string {
	if text == "" {
		return ""
	}
	return "`" + string(text) + "`"
}
