package contract

import (
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
# note: ""
# What is wrong, in one sentence.
title: ""
severity: low  # low, "very high"
# # A commit
# commit: ""
places:
  -
    file: ""
#     line: 1
`},
		"nothing required": {`{"properties": {"a": {"default": "x: y"}, "b": {"type": "boolean"}}}`, "a: \"x: y\"\n# b: false\n"},
		"all of":           {`{"allOf": [{"required": ["a"]}, {"properties": {"a": {"const": 3}}}]}`, "a: 3\n"},
		"no fields":        {`{"type": "string"}`, "# The schema names no fields.\n"},
		"not described":    {`{"required": ["a"]}`, "a: \"\"\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &Schemas{files: map[string]string{
				"question.schema.json": test.schema, "common.json": `{"$defs": {"commit": {"description": "A commit"}}}`,
			}}
			got, err := s.Template("question")
			if err != nil || string(got) != test.want {
				t.Errorf("got %v and\n%s\nwant\n%s", err, got, test.want)
			}
			checkSkeleton(t, got)
		})
	}
}

// checkSkeleton checks that a skeleton is YAML, also when its optional fields are switched on.
func checkSkeleton(t *testing.T, skeleton []byte) {
	t.Helper()
	all := regexp.MustCompile(`(?m)^# ( *(- )?\w+:)`).ReplaceAllString(string(skeleton), "$1")
	for _, text := range []string{string(skeleton), all} {
		m := &schema.Message{Body: schema.TextValue(text)}
		if _, ok, findings := validate.BodyFields(m); !ok && findings.HasErrors() && findings[0].Rule != validate.RuleFileEmpty && !strings.HasPrefix(text, "# The schema") {
			t.Errorf("this is not YAML: %v\n%s", findings, text)
		}
	}
}

// TestTemplateOfARecursiveSchema checks that a skeleton ends, however a schema refers to itself.
func TestTemplateOfARecursiveSchema(t *testing.T) {
	for _, text := range []string{
		`{"$ref": "#"}`,
		`{"allOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}`,
		`{"required": ["a", "b"], "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}`,
		`{"required": ["a"], "properties": {"a": {"type": "array", "items": {"$ref": "#"}}}}`,
		`{"allOf": [` + strings.Repeat(`{"$ref": "#"},`, 200) + `true]}`,
	} {
		s := &Schemas{files: map[string]string{"question.schema.json": text}}
		got, err := s.Template("question")
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(got), "\n"); lines > templateLines {
			t.Errorf("%s: the skeleton has %d lines, want at most %d", text, lines, templateLines)
		}
		checkSkeleton(t, got)
	}
}
