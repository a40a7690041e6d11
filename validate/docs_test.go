package validate

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocumentedRules compares the table of rules in docs/protocol.md with the rules.
func TestDocumentedRules(t *testing.T) {
	data, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| rule | severity | demands |\n|---|---|---|\n")
	for _, r := range rules {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", r.ID, r.Severity, strings.ReplaceAll(r.Description, "<", `\<`))
	}
	if !strings.Contains(string(data), want.String()) {
		t.Errorf("docs/protocol.md does not hold this table:\n%s", &want)
	}
}
