package schema

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

var testTime = time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)

func TestParseAgentName(t *testing.T) {
	for _, name := range []string{"a", "0", "Claude", "claude-code_2.5", "a..b", "a--", "task_request", "x_handoff", strings.Repeat("a", 64)} {
		if got, err := ParseAgentName(name); err != nil || string(got) != name || !got.Valid() {
			t.Errorf("ParseAgentName(%q) = %q, %v; want it accepted", name, got, err)
		}
	}
	for _, name := range []string{"", ".", "..", ".a", "-x", "_a", "a/b", `a\b`, "a b", " a", "a\n", "a\x00", "ä", "aä", "a@b", "a:b", strings.Repeat("a", 65)} {
		if got, err := ParseAgentName(name); err == nil || got != "" || AgentName(name).Valid() {
			t.Errorf("ParseAgentName(%q) = %q, want it refused", name, got)
		}
	}
}

func TestParseID(t *testing.T) {
	minute, second := testTime, testTime.Add(7*time.Second)
	tests := []struct {
		id   ID
		want IDParts
	}{
		{"msg-20260313T1430Z-claude-a8f3", IDParts{minute, "claude", "a8f3"}},
		{"msg-20260313T143007Z-claude-a8f3", IDParts{second, "claude", "a8f3"}},
		{"msg-20260313143007-claude-a8f3", IDParts{second, "claude", "a8f3"}},
		{"msg-20260313T1430Z-claude-001", IDParts{minute, "claude", "001"}},
		{"msg-20260313T1430Z-claude-0123456789", IDParts{minute, "claude", "0123456789"}},
		{ID("msg-20260313T1430Z-claude-" + strings.Repeat("A", 32)), IDParts{minute, "claude", strings.Repeat("A", 32)}},
		{"msg-20260313T1430Z-claude-code-2-a8f3", IDParts{minute, "claude-code-2", "a8f3"}},
		{"msg-20260313T1430Z-claude-7", IDParts{minute, "claude", "7"}},
		{"msg-20260313T1430Z-claude-a_8f", IDParts{minute, "claude", "a_8f"}},
		{"msg-20260313T1430Z-claude--", IDParts{minute, "claude", "-"}},
		{"msg-20260313T1430Z-claude-a8f3-", IDParts{minute, "claude", "a8f3-"}},
		{ID("msg-20260313T1430Z-claude-" + strings.Repeat("a", 64)), IDParts{minute, "claude", strings.Repeat("a", 64)}},
		{ID("msg-20260313T1430Z-" + strings.Repeat("a", 63) + "-b-c"), IDParts{minute, AgentName(strings.Repeat("a", 63)), "b-c"}},
		{"msg-20260313T1430Z-a_b.c-a8f3", IDParts{minute, "a_b.c", "a8f3"}},
		{"msg-20240229T2359Z-x-abc", IDParts{time.Date(2024, 2, 29, 23, 59, 0, 0, time.UTC), "x", "abc"}},
	}
	for _, test := range tests {
		if got, err := ParseID(test.id); err != nil || got != test.want {
			t.Errorf("ParseID(%q) = %+v, %v; want %+v", test.id, got, err, test.want)
		}
	}
	for _, id := range []ID{
		"", "msg", "msg-", "msg-20260313T1430Z", "msg-20260313T1430Z-a8f3", "msg-20260313T1430Z--a8f3", "msg-20260313T1430Z-claude",
		"MSG-20260313T1430Z-claude-a8f3", "20260313T1430Z-claude-a8f3", "msg-20260313T1430-claude-a8f3", "msg-20260313T14:30Z-claude-a8f3",
		"msg-20260230T1430Z-claude-a8f3", "msg-20260313T2460Z-claude-a8f3", "msg-20260313-claude-a8f3", "msg-2026031314300-claude-a8f3",
		"msg-20260313T1430Z-claude-", "msg-20260313T1430Z-claude-a.8f", "msg-20260313T1430Z-claude-a8fü",
		"msg-20260313T1430Z-../x-a8f3", "msg-20260313T1430Z-a b-a8f3", "msg-20260313T1430Z-claude-a8f3\n", "msg-٢٠٢٦٠٣١٣T1430Z-claude-a8f3",
		ID("msg-20260313T1430Z-claude-" + strings.Repeat("a", 65)),
		ID("msg-20260313T1430Z-" + strings.Repeat("a", 65) + "-a8f3"),
		ID("msg-20260313T1430Z-claude-a8f3" + strings.Repeat("-", maxID)),
	} {
		if got, err := ParseID(id); err == nil || got != (IDParts{}) {
			t.Errorf("ParseID(%q) = %+v, want it refused", id, got)
		}
	}
}

func TestParseConversationID(t *testing.T) {
	day := time.Date(2026, 3, 13, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		id   ConversationID
		want ConversationParts
	}{
		{"conv-20260313-claude-1", ConversationParts{day, "claude", "1"}},
		{"conv-20260313-claude-000001", ConversationParts{day, "claude", "000001"}},
		{"conv-20260313-claude-code-42", ConversationParts{day, "claude-code", "42"}},
	}
	for _, test := range tests {
		if got, err := ParseConversationID(test.id); err != nil || got != test.want {
			t.Errorf("ParseConversationID(%q) = %+v, %v; want %+v", test.id, got, err, test.want)
		}
	}
	for _, id := range []ConversationID{
		"", "conv-", "conv-20260313-1", "conv-20260313-claude", "conv-20260313-claude-", "conv-20260313-claude-1234567", "conv-20260313-claude-1a",
		"conv-20260313-claude-١", "conv-20260230-claude-1", "conv-2026-03-13-claude-1", "conv-202603133-claude-1", "conv-20260313T1430Z-claude-1",
		"Conv-20260313-claude-1", "conv-20260313-../x-1", "conv-20260313-claude-1 ", "conv-20260313--1",
	} {
		if got, err := ParseConversationID(id); err == nil || got != (ConversationParts{}) {
			t.Errorf("ParseConversationID(%q) = %+v, want it refused", id, got)
		}
	}
}

func TestUsualRand(t *testing.T) {
	for rand, want := range map[string]bool{
		"a8f3": true, "001": true, "A8F3": true, strings.Repeat("a", 32): true,
		"7": false, "ab": false, "a_8f": false, "a8f3-": false, strings.Repeat("a", 33): false,
	} {
		if got := (IDParts{Rand: rand}).UsualRand(); got != want {
			t.Errorf("UsualRand of %q is %t, want %t", rand, got, want)
		}
	}
}

// TestShortIDsOfDifferentTypesNeverMeet checks that the last character of the rand depends on the
// type, whatever the randomness.
func TestShortIDsOfDifferentTypesNeverMeet(t *testing.T) {
	owner := make(map[byte]Type)
	for _, kind := range Types() {
		for b := range 256 {
			id, err := NewID(testTime, "claude", kind, ShortRand, bytes.NewReader([]byte{byte(b)}))
			if err != nil {
				t.Fatal(err)
			}
			last := id[len(id)-1]
			if other, taken := owner[last]; taken && other != kind {
				t.Fatalf("short ids of %s and %s may both end in %q", other, kind, last)
			}
			owner[last] = kind
		}
	}
	if len(owner) != len(idAlphabet) {
		t.Errorf("short ids end in %d characters, want all %d", len(owner), len(idAlphabet))
	}
}

func TestNewIDCarriesItsTime(t *testing.T) {
	zeros := bytes.NewReader(make([]byte, 1000))
	tests := []struct {
		at          time.Duration // after the minute
		short, long ID
	}{
		{0, "msg-20260313T1430Z-claude-0000", "msg-20260313T1430Z-claude-0000000000000000"},
		{1286008, "msg-20260313T1430Z-claude-0000", "msg-20260313T1430Z-claude-000zzz0000000000"},
		{1286009, "msg-20260313T1430Z-claude-0010", "msg-20260313T1430Z-claude-0010000000000000"},
		{30 * time.Second, "msg-20260313T1430Z-claude-i000", "msg-20260313T1430Z-claude-i000000000000000"},
		{time.Minute - 1, "msg-20260313T1430Z-claude-zzz0", "msg-20260313T1430Z-claude-zzzzzz0000000000"},
	}
	for _, test := range tests {
		for length, want := range map[int]ID{ShortRand: test.short, LongRand: test.long} {
			if got, err := NewID(testTime.Add(test.at), "claude", TaskRequest, length, zeros); got != want || err != nil {
				t.Errorf("%v after the minute: the id of length %d is %s (%v), want %s", test.at, length, got, err, want)
			}
		}
	}
}

func TestNewIDNeedsItsRandomness(t *testing.T) {
	if id, err := NewID(testTime, "claude", Question, LongRand, strings.NewReader("short")); err == nil {
		t.Errorf("NewID with too little randomness gave %q, want an error", id)
	}
}

// FuzzNewID checks that a new id parses into its parts.
func FuzzNewID(f *testing.F) {
	f.Add(int64(1773412200), int64(0), "claude", uint8(0), false, []byte("abcd"))
	f.Add(int64(0), int64(999_999_999), "a-b_c.d", uint8(11), true, bytes.Repeat([]byte{255}, LongRand))
	f.Add(int64(253402300799), int64(1), "0", uint8(5), true, []byte{0, 1, 2})
	f.Add(int64(-62135596800), int64(1), "0", uint8(5), true, []byte{0, 1, 2})
	f.Fuzz(func(t *testing.T, seconds, nanoseconds int64, sender string, kind uint8, long bool, random []byte) {
		at := time.Unix(seconds, nanoseconds).UTC()
		if !AgentName(sender).Valid() || at.Year() < 1 || at.Year() > 9999 {
			return
		}
		length := ShortRand
		if long {
			length = LongRand
		}
		random = append(random, make([]byte, length)...)
		id, err := NewID(at, AgentName(sender), types[int(kind)%len(types)], length, bytes.NewReader(random))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseID(id)
		if err != nil || got.Sender != AgentName(sender) || !got.At.Equal(at.Truncate(time.Minute)) || len(got.Rand) != length || !got.UsualRand() {
			t.Errorf("%q reads as %+v (%v), want sender %s at %s", id, got, err, sender, at)
		}
	})
}

// FuzzParseID checks that the parts of an accepted id make the same id again.
func FuzzParseID(f *testing.F) {
	for _, id := range []string{"msg-20260313T1430Z-claude-a8f3", "msg-20260313143007-claude-code-a8f3", "msg-20260313T143007Z-a-abc", "msg--", "msg-20260313T1430Z-a"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		parts, err := ParseID(ID(id))
		if err != nil {
			return
		}
		stamp, _, _ := strings.Cut(strings.TrimPrefix(id, "msg-"), "-")
		if again := "msg-" + stamp + "-" + string(parts.Sender) + "-" + parts.Rand; again != id {
			t.Errorf("%q has the parts of %q", id, again)
		}
	})
}

func TestNewConversationID(t *testing.T) {
	day := time.Date(2026, 3, 13, 23, 30, 0, 0, time.FixedZone("west", -3600))
	for number, want := range map[uint64]ConversationID{
		7: "conv-20260314-my-agent-000007", 12_345_678: "conv-20260314-my-agent-345678", math.MaxUint64: "conv-20260314-my-agent-551615",
	} {
		got := NewConversationID(day, "my-agent", number)
		if parts, err := ParseConversationID(got); got != want || err != nil || parts.Agent != "my-agent" {
			t.Errorf("number %d makes %q (%v), want %q", number, got, err, want)
		}
	}
}

// FuzzParseConversationID checks that the parts of a conversation id make the id again.
func FuzzParseConversationID(f *testing.F) {
	for _, seed := range []string{"conv-20260313-claude-1", "conv-20260313-a-b-000001", "conv-20260313--1", "conv-", "conv-20260230-a-1", "conv-20260313-a-1234567"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := ParseConversationID(ConversationID(text))
		if err != nil {
			if err.Error() == "" || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("the error about %q is %q", text, err)
			}
			return
		}
		if again := "conv-" + parts.Date.Format("20060102") + "-" + string(parts.Agent) + "-" + parts.Sequence; again != text || !parts.Agent.Valid() {
			t.Errorf("%q has the parts %+v, which make %q", text, parts, again)
		}
	})
}

func TestReserved(t *testing.T) {
	for _, name := range []AgentName{"all", "All", "con", "NUL", "aux.x", "Prn.txt", "com0", "COM1", "lpt9.log", "bob.", "con."} {
		if name.Reserved() == "" {
			t.Errorf("%s is free, want it reserved", name)
		}
	}
	for _, name := range []AgentName{"alla", "all.x", "console", "com", "com10", "comx", "lptz", "nulls", "x.con", "codex", "claude", "human", "archive", "a.lock"} {
		if reason := name.Reserved(); reason != "" {
			t.Errorf("%s is reserved (%s), want it free", name, reason)
		}
	}
}
