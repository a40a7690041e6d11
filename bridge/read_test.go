package bridge

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadRecords(t *testing.T) {
	t.Parallel()
	record := func(id string) string { return `{"id":"` + id + `","type":"chat","from":"a"}` }
	for name, test := range map[string]struct{ text, want string }{
		"nothing":           {"", ""},
		"lines":             {record("x") + "\n" + record("y") + "\n", "x@1 y@2"},
		"no newline at end": {record("x") + "\n" + record("y"), "x@1 y@2"},
		"torn":              {record("x") + "\n" + record("y")[:9], "x@1 !2"},
		"garbage between":   {record("x") + "\ngarbage\n\n[]\n" + record("y") + "\r\n", "x@1 !2 !3 !4 y@5"},
		"byte order mark":   {"\ufeff" + record("x") + "\n", "x@1"},
		"long":              {record(strings.Repeat("l", 1<<20)) + "\n" + record("y"), strings.Repeat("l", 1<<20) + "@1 y@2"},
	} {
		if got := readAll(t, strings.NewReader(test.text)); got != test.want {
			t.Errorf("%s: want %.80s, got %.80s", name, test.want, got)
		}
	}
	broken := errors.New("broken pipe")
	got := readAll(t, io.MultiReader(strings.NewReader(record("x")+"\n"+record("y")), iotest.ErrReader(broken)))
	if got != "x@1 read <stdin>: broken pipe" {
		t.Errorf("want one record and the reader's error, got %s", got)
	}
}

// readAll writes each record as id@line and each skipped line as !line.
func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	var out []string
	for e, err := range ReadRecords(r, "<stdin>") {
		var skipped *LineError
		switch {
		case errors.As(err, &skipped):
			out = append(out, "!"+string(rune('0'+skipped.Line)))
		case err != nil:
			out = append(out, err.Error())
		default:
			out = append(out, e.ID+"@"+string(rune('0'+e.Line)))
		}
	}
	return strings.Join(out, " ")
}

func TestSaysTheSame(t *testing.T) {
	t.Parallel()
	one := Record{Type: TypeSignal, From: "a", To: "bc", Content: "x", Signal: SignalFail, Timestamp: "2026-03-13T14:30:00Z"}
	later := one
	later.Timestamp, later.RunID = "2026-03-13T14:31:00Z", 2
	if !one.SaysTheSame(later) {
		t.Error("want the time ignored")
	}
	pass, shifted := one, one
	pass.Signal = SignalPass
	shifted.From, shifted.To = "ab", "c"
	for _, other := range []Record{pass, shifted} {
		if GenerateID(one.Type, one.From, one.To, one.Content) != GenerateID(other.Type, other.From, other.To, other.Content) {
			t.Errorf("want one id for %+v and %+v", one, other)
		}
		if one.SaysTheSame(other) {
			t.Errorf("%+v and %+v do not say the same", one, other)
		}
	}
}
