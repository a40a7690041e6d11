package ash

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// transcriptLines returns every line of every transcript.
func transcriptLines(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/transcripts/*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range txtar.Parse(text).Files {
			lines = append(lines, strings.Split(strings.TrimSuffix(string(file.Data), "\n"), "\n")...)
		}
	}
	return lines
}

func compileSchema(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	if err := compiler.AddResource("schema.json", bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestSchemasAgreeWithDecoders checks that schema and decoder agree about every line.
func TestSchemasAgreeWithDecoders(t *testing.T) {
	commands, events := compileSchema(t, CommandSchema()), compileSchema(t, EventSchema())
	lines := append(transcriptLines(t),
		`{"cmd":"query","prompt":"","sessionId":"","includePartialMessages":null}`,
		`{"cmd":"query","prompt":true,"sessionId":""}`,
		`{"cmd":"query","prompt":"","sessionId":"","model":null}`, `{"cmd":"query","prompt":"","sessionId":"","model":["large"]}`,
		`{"cmd":"exec"}`, `{"cmd":"exec","command":"ls"}`, `{"cmd":"exec","command":"ls","timeout":1.5}`, `{"cmd":"exec","command":"ls","timeout":0}`,
		`{"cmd":"exec","command":"ls","timeout":null}`, `{"cmd":"exec","command":["ls"]}`, `{"cmd":"exec","command":"ls","timeout":1e99}`,
		`{"ev":"exec_result","exitCode":0,"stdout":"","stderr":"x"}`, `{"ev":"exec_result","exitCode":"0","stdout":"","stderr":""}`, `{"ev":"exec_result"}`,
		`{"cmd":null}`, `{"ev":[]}`, `null`, `"ev"`, `{"ev":"done","sessionId":null}`,
		`{"ev":"error","error":""}`, `{"ev":"message"}`, `{"ev":"message","data":false}`, `{"ev":"ready","cmd":false}`,
	)
	for _, line := range lines {
		var value any
		if json.Unmarshal([]byte(line), &value) != nil || strings.Count(line, "md\":") > 1 && !strings.Contains(line, "data") {
			continue // not JSON, or a repeated field: a schema cannot see it
		}
		_, err := decodeCommand([]byte(line))
		if schemaErr := commands.Validate(value); (err == nil) != (schemaErr == nil) {
			t.Errorf("command %s\ndecoder: %v\n schema: %v", line, err, schemaErr)
		}
		_, err = decodeEvent([]byte(line))
		if schemaErr := events.Validate(value); (err == nil) != (schemaErr == nil) {
			t.Errorf("event %s\ndecoder: %v\n schema: %v", line, err, schemaErr)
		}
	}
}

// TestSchemasDescribeFields checks that every field has a title and a description for editors.
func TestSchemasDescribeFields(t *testing.T) {
	for name, text := range map[string][]byte{"command": CommandSchema(), "event": EventSchema()} {
		var schema map[string]any
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		if schema["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s: $schema is %v", name, schema["$schema"])
		}
		checkDescribed(t, name, schema)
		for definition, value := range schema["$defs"].(map[string]any) {
			checkDescribed(t, name+"/"+definition, value.(map[string]any))
		}
	}
}

func checkDescribed(t *testing.T, path string, schema map[string]any) {
	t.Helper()
	_, reference := schema["$ref"]
	_, constant := schema["const"]
	if !reference && !constant && (schema["title"] == nil || schema["description"] == nil) {
		t.Errorf("%s has no title or no description", path)
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		if property, ok := property.(map[string]any); ok {
			checkDescribed(t, path+"."+name, property)
		}
	}
}
