package judge

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

func TestParse(t *testing.T) {
	deep := strings.Repeat("[", schema.MaxDepth+2) + strings.Repeat("]", schema.MaxDepth+2)
	for name, test := range map[string]struct{ text, message string }{
		"an object":         {`{"a": [1, {"b": null}], "c": {}}`, ""},
		"true":              {"true\n", ""},
		"empty":             {"", "unexpected end of JSON input (line 1)"},
		"unfinished":        {"{\"a\":\n[1", "unexpected end of JSON input (line 2)"},
		"no JSON":           {"{\n  a: 1}", "invalid character 'a' looking for beginning of object key string (line 2)"},
		"a repeated key":    {"{\"ä\": {\"b\": 1},\n \"c\": 2, \"ä\": 3}", `key "ä" is repeated`},
		"one that looks":    {`{"a": 1, "\u0061": 2}`, `key "a" is repeated`},
		"two values":        {"{}\n{}", "after top-level value"},
		"a large number":    {`{"a": [{"maximum": 1e9999}]}`, "the number 1e9999… is too large"},
		"a long number":     {`{"maximum": ` + strings.Repeat("9", 100) + `}`, "too long"},
		"nesting":           {deep, "nest deeper"},
		"as deep as may be": {deep[2 : len(deep)-2], ""},
	} {
		_, err := parse(test.text)
		if (err == nil) != (test.message == "") || err != nil && !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: got %v, want %q", name, err, test.message)
		}
	}
}

// FuzzParse checks that every text is parsed to an end.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"a": [1, {"b": null}], "a": 2}`, "[[[[", "{\"a\":\n1} x", "\ufeff{}", "\"\\ud800\"", "{\"\xff\": 1}", `{"$ref": "%zz#/a"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := parse(text)
		if _, ok := errors.AsType[textError](err); err != nil && !ok {
			t.Fatalf("%q: %v, want a textError", text, err)
		}
		if err == nil && !json.Valid([]byte(text)) {
			t.Fatalf("%q is parsed and is not JSON", text)
		}
	})
}
