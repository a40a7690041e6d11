package judge

import (
	"encoding/json"
	"testing"

	"github.com/oacp-go/oacp/contract"
)

// finding is a schema of the size that people write.
const finding = `{
  "type": "object", "required": ["title", "severity", "places"], "additionalProperties": false,
  "properties": {
    "title": {"type": "string", "minLength": 5},
    "severity": {"enum": ["low", "medium", "high"]},
    "commit": {"$ref": "#/$defs/commit"},
    "places": {"type": "array", "minItems": 1, "items": {
      "type": "object", "required": ["file"],
      "properties": {"file": {"type": "string"}, "line": {"type": "integer", "minimum": 1}}
    }}
  },
  "$defs": {"commit": {"type": "string", "pattern": "^[0-9a-f]{7,40}$"}}
}`

// BenchmarkJudge measures a request, with its decoding.
func BenchmarkJudge(b *testing.B) {
	c, ready := compile(map[string]string{"question.schema.json": finding}, []string{"question"})
	if len(ready.Problems) > 0 {
		b.Fatal(ready.Problems)
	}
	fields := []byte(`{"title": "The request has no timeout", "severity": "high", "places": [{"file": "a.go", "line": "7"}]}`)
	line, err := json.Marshal(contract.Request{ID: 1, Names: []string{"question"}, Fields: fields})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if a := c.answer(line); a.Error != "" || len(a.Violations) > 0 {
			b.Fatal(a)
		}
	}
}
