package schema

import "testing"

func TestMatch(t *testing.T) {
	const (
		short   = "msg-20260313T1430Z-claude-k3x9"
		long    = "msg-20260313T1430Z-my-agent-k3x9abcdefghijkl"
		foreign = "msg-20260313143000-claude-ab1"
		broken  = "no-id-k3x9"
	)
	tests := []struct {
		id   ID
		text string
		want IDMatch
	}{
		{short, short, Matches},
		{short, "20260313T1430Z-claude-k3x9", Matches},
		{short, "k3x9", Matches},
		{short, "", NoMatch},
		{short, "m", TooShort},
		{short, "2", TooShort},
		{short, "msg-", TooShort},
		{short, "msg-2026", TooShort},
		{short, "msg-20260313T1430Z-claude-", TooShort},
		{short, "msg-20260313T1430Z-claude-k3x", TooShort},
		{short, "20260313T1430Z-claude-k3x", TooShort},
		{short, "k", TooShort},
		{short, "k3x", TooShort},
		{short, "k3x99", NoMatch},
		{short, "3x9", NoMatch},
		{short, "claude-k3x9", NoMatch},
		{short, "claude", NoMatch},
		{short, "K3X9", NoMatch},
		{long, "k3x", TooShort},
		{long, "k3x9", Matches},
		{long, "k3x9abcdefghijkl", Matches},
		{long, "msg-20260313T1430Z-my-agent-k3x", TooShort},
		{long, "msg-20260313T1430Z-my-agent-k3x9", Matches},
		{long, "20260313T1430Z-my-agent-k3x9a", Matches},
		{long, "agent-k3x9", NoMatch},
		{foreign, "ab1", TooShort},
		{foreign, "msg-20260313143000-claude-ab", TooShort},
		{foreign, foreign, Matches},
		{foreign, "20260313143000-claude-ab1", TooShort},
		{broken, "k3x9", NoMatch},
		{broken, "no-id", NoMatch},
		{broken, broken, Matches},
	}
	for _, test := range tests {
		if got := test.id.Match(test.text); got != test.want {
			t.Errorf("%s matches %q: %d, want %d", test.id, test.text, got, test.want)
		}
	}
}

func TestShort(t *testing.T) {
	for id, want := range map[ID]string{
		"msg-20260313T1430Z-claude-k3x9":               "k3x9",
		"msg-20260313T1430Z-my-agent-k3x9abcdefghijkl": "k3x9abcd",
		"msg-20260313143000-claude-ab1":                "msg-20260313143000-claude-ab1",
		"no-id-k3x9":                                   "no-id-k3x9",
		"":                                             "",
	} {
		if got := id.Short(); got != want || id != "" && id.Match(got) != Matches {
			t.Errorf("the short form of %q is %q, want %q, which names it", id, got, want)
		}
	}
}
