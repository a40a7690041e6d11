package project

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Files in an agent's folder.
const (
	// statusName says what the agent does now.
	statusName = "status.yaml"
	// cardName describes the agent.
	cardName = "agent_card.yaml"
)

// Runtimes are the programs that an agent can run in.
var Runtimes = []string{"claude", "codex", "cursor", "gemini", "human"}

func checkRuntime(runtime string) error {
	if runtime != "" && !slices.Contains(Runtimes, runtime) {
		return fmt.Errorf("runtime %q is not one of %s", runtime, strings.Join(Runtimes, ", "))
	}
	return nil
}

// newFiles returns the card and the status file of an agent that waits for work.
func newFiles(agent schema.AgentName, runtime string, now time.Time) []newFile {
	description := fmt.Sprintf("%s agent (%s runtime)", agent, runtime)
	card := fmt.Appendf(nil, cardTemplate, quoted(string(agent)), quoted(runtime), quoted(runtime), quoted(description),
		quoted(schema.BoxPath(agent, mailbox.Inbox)+"/"), quoted(schema.BoxPath(agent, mailbox.Outbox)+"/"))
	for _, t := range schema.Types() {
		card = fmt.Appendf(card, "    - %s\n", t)
	}
	status := fmt.Appendf(nil, statusTemplate, runtime, quoted(runtime), quoted(string(schema.NewTimestamp(now))))
	return []newFile{{statusName, status}, {cardName, card}}
}

// quoted returns a text of letters, digits and the characters in names as a double-quoted scalar.
func quoted(text string) string { return strconv.Quote(text) }

// OfflineNotes says which recipients of a message do not work now, as their status files say: one
// text for each. A file that cannot be read says nothing.
func OfflineNotes(w *mailbox.Workspace, m *schema.Message) (notes []string) {
	for _, agent := range m.To {
		var status struct {
			Status string `yaml:"status"`
		}
		err := readAgentFile(w, agent, statusName, &status)
		switch {
		case err != nil || !strings.EqualFold(strings.TrimSpace(status.Status), "offline"):
		case m.Priority == schema.P0:
			notes = append(notes, fmt.Sprintf("the message is urgent (P0), but agent %s is OFFLINE: reach it another way, too", agent))
		default:
			notes = append(notes, fmt.Sprintf("agent %s is offline, as its status.yaml says, and may read this late", agent))
		}
	}
	return notes
}
