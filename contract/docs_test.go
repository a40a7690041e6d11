package contract_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// TestDocumentedExample checks that the schema in docs/contracts.md says what the page shows.
func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile("../docs/contracts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	text, rest, ok := strings.Cut(rest, "```\n")
	_, rest, shown := strings.Cut(rest, "```\noacp: send: ")
	errorLines, _, closed := strings.Cut(rest, "\n```\n")
	if !ok || !shown || !closed {
		t.Fatal("docs/contracts.md shows no schema, or no errors")
	}
	root, dir := workspaceWith(t, map[string]string{"schemas/channel-findings.schema.json": text})
	path := program(t, "answers")
	check := func(body string) string {
		m := &schema.Message{Type: schema.ReviewFeedback, Channel: "findings", Body: schema.TextValue(body)}
		err := contract.CheckDraft(t.Context(), root, dir, func() string { return path }, m, validate.Source{BodyFile: "finding.yaml"})
		invalid, ok := errors.AsType[*validate.InvalidError](err)
		if !ok {
			t.Fatalf("got %v, want a *validate.InvalidError", err)
		}
		var lines []string
		for _, d := range invalid.Diagnostics {
			lines = append(lines, strings.TrimSuffix(d.String()+": "+d.Fix, ": "))
		}
		return strings.Join(lines, "\noacp: send: ")
	}
	if got := check("# A finding\ntitle: There is no timeout\nseverity: urgent\nline: 0\n"); got != errorLines {
		t.Errorf("got\n%s\nthe page shows\n%s", got, errorLines)
	}
	schemas, err := contract.Load(root, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	template, err := schemas.Template("channel-findings", schema.Value{})
	if err != nil {
		t.Fatal(err)
	}
	// What it leaves to be filled in is all that does not fit.
	if got := check(string(template)); strings.Count(got, "[contract]") != 2 || !strings.Contains(got, "body.title") || !strings.Contains(got, "body.severity") {
		t.Errorf("the template\n%s\nhas the problems\n%s\nwant those of the empty title and severity only", template, got)
	}
}
