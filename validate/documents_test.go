package validate

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// document returns a published JSON Schema, compiled and as data.
func schemaDocument(t *testing.T, name string) (*jsonschema.Schema, map[string]any) {
	t.Helper()
	text, err := schema.Document(name)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := jsonschema.CompileString(name+".schema.json", string(text))
	if err != nil {
		t.Fatal(err)
	}
	var data map[string]any
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	return compiled, data
}

// TestDocuments checks that every document describes itself for editors, and that the typed bodies
// are the same in the document of the message and alone.
func TestDocuments(t *testing.T) {
	_, message := schemaDocument(t, schema.MessageDocument)
	definitions := message["$defs"].(map[string]any)
	for _, name := range schema.DocumentNames() {
		_, data := schemaDocument(t, name)
		if data["$schema"] != "https://json-schema.org/draft/2020-12/schema" || data["$id"] != "https://github.com/oacp-go/oacp/schema/"+name+".schema.json" {
			t.Errorf("%s: $schema %v, $id %v", name, data["$schema"], data["$id"])
		}
		if data["title"] == nil || data["description"] == nil {
			t.Errorf("%s: title %v, description %v", name, data["title"], data["description"])
		}
		for field, property := range data["properties"].(map[string]any) {
			if text, _ := property.(map[string]any)["description"].(string); len(text) < 15 {
				t.Errorf("%s: field %s: description %q", name, field, text)
			}
		}
		if name == schema.MessageDocument {
			continue
		}
		delete(data, "$schema")
		delete(data, "$id")
		if !reflect.DeepEqual(data, definitions[name]) {
			t.Errorf("%s: the document and the definition in that of the message differ", name)
		}
	}
	if text, err := schema.Document("none"); err == nil {
		t.Errorf("document none: %s, want an error", text)
	}
}

// TestDocumentFields checks that the document of the message has exactly the fields, required
// fields, types and priorities of the package schema.
func TestDocumentFields(t *testing.T) {
	_, message := schemaDocument(t, schema.MessageDocument)
	properties := message["properties"].(map[string]any)
	var names []string
	for name := range properties {
		names = append(names, name)
	}
	same := func(what string, got any, want []string) {
		t.Helper()
		var texts []string
		switch got := got.(type) {
		case []string:
			texts = got
		case []any:
			for _, text := range got {
				texts = append(texts, text.(string))
			}
		}
		slices.Sort(texts)
		slices.Sort(want)
		if !slices.Equal(texts, want) {
			t.Errorf("%s: got %v, want %v", what, texts, want)
		}
	}
	var types, priorities []string
	for _, value := range schema.Types() {
		types = append(types, string(value))
	}
	for _, value := range schema.Priorities() {
		priorities = append(priorities, string(value))
	}
	same("fields", names, schema.FieldNames())
	same("required fields", message["required"], []string{"id", "from", "to", "type", "priority", "created_at_utc", "subject", "body"})
	same("types", properties["type"].(map[string]any)["enum"], types)
	same("priorities", properties["priority"].(map[string]any)["enum"], priorities)
}

// TestDocumentInEditor checks that what we read as text passes in an editor, which gives the schema
// the YAML value of a scalar.
func TestDocumentInEditor(t *testing.T) {
	compiled, _ := schemaDocument(t, schema.MessageDocument)
	tests := []struct {
		change string
		valid  bool
	}{
		{`{}`, true},
		{`{"related_pr": 42, "channel": null, "expires_at": "", "autonomy_hint": null, "turns": null}`, true},
		{`{"subject": true, "body": 1.5, "from": 7, "to": [8, "codex"]}`, true},
		{`{"type": "review_lgtm", "turns": 8, "est_cost_usd": 0.5}`, true},
		{`{"body": {"a": {"b": [1, null, true]}}}`, true},
		{`{"type": "handoff", "body": "source_agent: claude"}`, true},
		{`{"type": "follow_up", "body": {"summary": "x"}}`, true},
		{`{"related_pr": -1}`, false},
		{`{"priority": null}`, false},
		{`{"turns": 8}`, false},
		{`{"type": "handoff", "body": {"source_agent": "claude"}}`, false},
		{`{"type": "handoff_complete", "body": {"issue": 1}}`, false},
		{`{"type": "handoff", "to": ["codex", "gemini"], "body": "x: y"}`, false},
		{`{"type": "review_lgtm", "est_cost_usd": -0.5}`, false},
		{`{"body": []}`, false},
		{`{"extra": 1}`, false},
	}
	for _, test := range tests {
		instance := map[string]any{
			"id": "msg-20260313T1430Z-claude-a8f3", "from": "claude", "to": "codex", "type": "task_request", "priority": "P2",
			"created_at_utc": "2026-03-13T14:30:00Z", "subject": "Hello", "body": "World",
		}
		decoder := json.NewDecoder(strings.NewReader(test.change))
		decoder.UseNumber()
		if err := decoder.Decode(&instance); err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(instance); (err == nil) != test.valid {
			t.Errorf("%s: %v, want valid %v", test.change, err, test.valid)
		}
	}
}

func TestQuotedNames(t *testing.T) {
	got := quotedNames(`missing properties: 'a', 'it\'s', 'say "x"', 'b\\c', 'd\ne'`)
	if want := []string{"a", "it's", `say "x"`, `b\c`, "d\ne"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
