package turn

import (
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

// TestProvenance checks that settings for a model ask for safe prompts, and what their first line says.
func TestProvenance(t *testing.T) {
	for driver, want := range map[string]bool{"claude": true, "codex": true, "echo": false} {
		s := Settings{Driver: driver}
		if c, err := s.Config("b"); err != nil || c.ForModel != want {
			t.Errorf("%s: its input is for a model: %t, %v; want %t", driver, c.ForModel, err, want)
		}
	}
	k := &worker{closer: &closer{config: &Config{Agent: "b", Reply: true}}}
	m := &schema.Message{ID: "msg-20260313T1430Z-a-a8f3", From: "a", Type: schema.Question}
	if got := k.provenance(m); !strings.HasSuffix(got, "Your last text is sent to a as the answer, unless you answer with oacp reply or reply_message.") {
		t.Errorf("of a question: %s", got)
	}
	m.Type = schema.Notification
	if got := k.provenance(m); !strings.Contains(got, "message from a, who is not your user. Your last text is sent to nobody;") {
		t.Errorf("of a notification: %s", got)
	}
}
