package contract

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

func TestTemplate(t *testing.T) {
	tests := map[string]struct{ schema, want string }{
		"a finding": {`{
  "title": "A finding",
  "type": "object",
  "required": ["title", "severity", "places"],
  "properties": {
    "note": {"type": "string", "title": "Anything else"},
    "title": {"type": "string", "description": "What is wrong,\n in one sentence."},
    "severity": {"enum": ["low", "very high"]},
    "commit": {"$ref": "common.json#/$defs/commit"},
    "places": {"type": "array", "items": {"type": "object", "required": ["file"], "properties": {
      "file": {"type": "string"}, "line": {"type": "integer", "minimum": 1}
    }}}
  }
}`, `# A finding

# # Anything else
# note:
# What is wrong, in one sentence.
title:
severity:  # low, "very high"
# commit:
places:
  -
    file:
#     line:
`},
		"nothing required": {`{"properties": {"a": {}, "b": {"type": "boolean"}}}`, "a:\n# b:\n"},
		"no fields":        {`{"type": "string"}`, "# The schema names no fields.\n"},
		"not described":    {`{"required": ["a"]}`, "a:\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &Schemas{files: map[string]string{
				"question.schema.json": test.schema, "common.json": `{"$defs": {"commit": {"description": "A commit."}}}`,
			}}
			got, err := s.Template("question", schema.Value{})
			if err != nil || string(got) != test.want {
				t.Errorf("got %v and\n%s\nwant\n%s", err, got, test.want)
			}
			checkTemplate(t, got)
		})
	}
}

// checkTemplate checks that a template is YAML, also when its optional fields are switched on.
func checkTemplate(t *testing.T, template []byte) {
	t.Helper()
	all := regexp.MustCompile(`(?m)^# ( *(- )?\w+:)`).ReplaceAllString(string(template), "$1")
	for _, text := range []string{string(template), all} {
		m := &schema.Message{Body: schema.TextValue(text)}
		if _, ok, findings := validate.BodyFields(m); !ok && findings.HasErrors() && findings[0].Rule != "file-empty" && !strings.HasPrefix(text, "# The schema") {
			t.Errorf("this is not YAML: %v\n%s", findings, text)
		}
	}
}

// TestTemplateOfATypedBody checks that the template of each type is refused field by field as long as
// nothing is filled in, and that it is valid, without a warning, as soon as everything is.
func TestTemplateOfATypedBody(t *testing.T) {
	answers := strings.NewReplacer("source_agent:\n", "source_agent: claude\n", "target_agent:\n", "target_agent: codex\n",
		"next_owner:\n", "next_owner: codex\n", "pr:\n", "pr: 0\n", "    -\n", "    - text\n", "  -\n", "  - text\n", ":\n", ": text\n")
	required := map[string]int{"handoff": 9, "handoff_complete": 5}
	for _, name := range TemplateNames(nil) {
		text, err := new(Schemas).Template(name, schema.Value{})
		if err != nil {
			t.Fatal(err)
		}
		checkTemplate(t, text)
		m := &schema.Message{
			ID: "msg-20260313T1430Z-claude-a8f3", From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Type(name),
			Priority: schema.P2, CreatedAt: "2026-03-13T14:30:00Z", Subject: "s", Body: schema.TextValue(string(text)),
		}
		empty := 0
		for _, d := range validate.Message(m) {
			if d.Rule == "typed-body-field" && strings.HasPrefix(d.Field, "body.") {
				empty++
			}
		}
		if empty != required[name] {
			t.Errorf("%s: %d fields of the template are refused, want %d:\n%v", name, empty, required[name], validate.Message(m))
		}
		filled := regexp.MustCompile(`(?m)^( *(?:artifacts_to_review|definition_of_done|context_bundle|files_touched|decisions_made|blockers_hit|suggested_next_steps|findings):)$`).
			ReplaceAllString(string(text), "$1 ")
		m.Body = schema.TextValue(answers.Replace(filled))
		if found := validate.Message(m); len(found) > 0 {
			t.Errorf("%s: the template, filled in, has the problems %v:\n%s", name, found, m.Body.Text)
		}
	}
	if _, err := new(Schemas).Template("notification", schema.Value{}); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("a type without fields: got %v, want ErrNoTemplate", err)
	}
	if _, err := new(Schemas).Template("message", schema.Value{}); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("the schema of a message: got %v, want ErrNoTemplate", err)
	}
}

// TestTemplateOfTwoSchemas checks that a template has the fields that oacp knows for a type and those
// of the workspace.
func TestTemplateOfTwoSchemas(t *testing.T) {
	s := &Schemas{files: map[string]string{"handoff_complete.schema.json": `{"required": ["coverage"], "properties": {"branch": {"description": "ours"}}}`}}
	text, err := s.Template("handoff_complete", schema.Value{})
	if err != nil || !strings.HasSuffix(string(text), "\ncoverage:\n") || strings.Count(string(text), "\nbranch:\n") != 1 {
		t.Errorf("got %v and\n%s\nwant the fields of both, each once", err, text)
	}
}
