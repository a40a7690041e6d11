package ash

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzValidJSON compares the scanner with encoding/json.
func FuzzValidJSON(f *testing.F) {
	for _, text := range []string{
		``, ` {} `, `[]`, `{"a":[1,-2.5e3,0,true,false,null,"x"], "b" : {"":{}}}`, `[1,]`, `{"a"}`, `{"a":1,}`, `[1 2]`,
		`"é \" \\ \/ \b\f\n\r\t \u00e9 \uD83D tail of text"`, `"\u00g0"`, `"\x"`, "\"a\nb\"", `"open`, `01`, `1.`, `-`, `nul`, `{}x`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := validJSON(text), json.Valid(text); got != want {
			t.Errorf("validJSON(%.100q) is %v, encoding/json says %v", text, got, want)
		}
	})
}

func TestValidJSONDepth(t *testing.T) {
	for _, depth := range []int{maxDepth, maxDepth + 1} {
		text := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		if got, want := validJSON(text), json.Valid(text); got != want {
			t.Errorf("%d levels: validJSON is %v, encoding/json says %v", depth, got, want)
		}
	}
}
