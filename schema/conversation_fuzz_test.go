package schema

import (
	"strings"
	"testing"
)

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
