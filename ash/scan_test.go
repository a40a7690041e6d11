package ash

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// scanTexts are JSON and nearly JSON. Whether each is valid, and where its value stands,
// encoding/json says.
var scanTexts = []string{
	``, ` `, `null`, `nul`, `nulls`, `true`, `false`, `tru`, `True`, ` 1 `, `0`, `-0`, `-`, `+1`, `01`, `-01`, `1.`, `.5`, `1.50`,
	`1e5`, `1E+05`, `1e`, `1e-`, `1.e5`, `12345678901234567890.0001e-400`, `1 2`, `1,`, `,`, `:`, `NaN`, `0x10`,
	`""`, `"`, `"a`, `"\"`, `"\""`, `"\\"`, `"\\\"`, `"\u00e9"`, `"\u00E9"`, `"\u00g0"`, `"\u12"`, `"\u`, "\"\\u\x10\x11\x12\x13\"", `"\x"`, `"\ud800"`,
	"\"\t\"", "\"\x1f\"", "\"\x7f\"", "\"1234567\x00\"", "\"12345678\x1f901234567\"", `"é€😀"`, `"a long text, longer than eight bytes, with \n an escape"`,
	`[]`, `[ ]`, `[`, `]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `[1,2]`, `[[],[[]],{}]`, `[}`, `[1}`, `[1]]`,
	`{}`, `{ }`, `{`, `}`, `{"a":1}`, `{"a" : 1 , "b":[ 2 ]}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a":}`, `{"a",1}`, `{a:1}`, `{1:1}`, `{"a":1 "b":2}`,
	`{"a":1]`, `{"a":{"b":{"c":[{}]}}}`, `{"a":1,"a":2}`, "{\"a\":\r\n\t1}", "\ufeff1", "\v1", "[1\x00]", "\x00",
	strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
	strings.Repeat(`{"a":`, maxDepth) + "1" + strings.Repeat("}", maxDepth),
}

func TestScanValue(t *testing.T) {
	for _, text := range scanTexts {
		checkScan(t, []byte(text))
	}
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	if _, _, err := scanValue([]byte(deep), 0); err == nil {
		t.Errorf("a value %d levels deep passed", maxDepth+1)
	}
}

func FuzzScanValue(f *testing.F) {
	for _, text := range scanTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkScan(t, text) })
}

// checkScan compares with encoding/json, which is the authority on what JSON is.
func checkScan(t *testing.T, text []byte) {
	t.Helper()
	start, end, err := scanValue(text, 0)
	valid := err == nil && skipSpace(text, end) == len(text)
	if want := json.Valid(text); valid != want {
		if !valid && strings.Contains(err.Error(), "nested deeper") {
			return // encoding/json allows one level more
		}
		t.Fatalf("%.80q: got %t, error %v, want %t", text, valid, err, want)
	}
	if !valid {
		return
	}
	if got, want := string(text[start:end]), string(trimSpace(text)); got != want {
		t.Errorf("%.80q: got the value %.80q, want %.80q", text, got, want)
	}
	if text[start] == '"' && utf8.Valid(text) {
		var want string
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if got := decodeString(text[start:end]); got != want {
			t.Errorf("%q: got the text %q, want %q", text, got, want)
		}
	}
}
