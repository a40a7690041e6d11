package mirror

import (
	"testing"

	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// TestAnswersAreNotDerived checks that an answer to a derived message is on none of the channels of
// derived messages.
func TestAnswersAreNotDerived(t *testing.T) {
	t.Parallel()
	for _, row := range convert.Mapping() {
		for _, suffix := range []string{"", "-all"} {
			if row.Channel == "" {
				continue
			}
			m := schema.Message{
				ID: "msg-20260313T1201Z-claude-0123456789abcdef", From: "claude", To: []schema.AgentName{"codex"},
				Type: row.Message, Channel: row.Channel + suffix,
			}
			if answer := conversation.Reply(&m, "codex", schema.Notification); answer.Channel != "" {
				t.Errorf("the answer to a message on %s is on %s, want no channel", m.Channel, answer.Channel)
			}
		}
	}
}
