package project

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// Files in an agent's folder.
const (
	// StatusName is the file that says what the agent does now.
	StatusName = "status.yaml"
	// cardName is the file that describes the agent.
	cardName = "agent_card.yaml"
)

// Runtimes are the programs that an agent can run in.
var Runtimes = []string{"claude", "codex", "cursor", "gemini", Human}

// Human is the runtime of a person.
const Human = "human"

// IsPerson reports whether an agent is a person: its card can be read and has the runtime human.
func IsPerson(w *mailbox.Workspace, agent schema.AgentName) bool {
	runtime, err := runtimeOf(w, agent)
	return err == nil && runtime == Human
}

// CheckProgram returns an error if the agent is a person, in whose name no program may act.
func CheckProgram(w *mailbox.Workspace, agent schema.AgentName) error {
	if IsPerson(w, agent) {
		return failure.New("person", fmt.Sprintf("%s is a person: no program acts for a person", agent),
			fmt.Sprintf("oacp inbox --agent %s lists what waits; a person acts in a terminal, as with oacp decide", agent))
	}
	return nil
}

// newFiles returns the card and the status file of an agent that waits for work.
func newFiles(agent schema.AgentName, runtime string, now time.Time) []newFile {
	quoted := strconv.Quote // the texts have only characters that YAML quotes as Go does
	description := fmt.Sprintf("%s agent (%s runtime)", agent, runtime)
	if runtime == Human {
		description = fmt.Sprintf("%s, a person", agent)
	}
	card := fmt.Appendf(nil, cardTemplate, quoted(string(agent)), quoted(runtime), quoted(runtime), quoted(description),
		quoted(schema.BoxPath(agent, mailbox.Inbox)+"/"), quoted(schema.BoxPath(agent, mailbox.Outbox)+"/"))
	for _, t := range schema.Types() {
		card = fmt.Appendf(card, "    - %s\n", t)
	}
	status := fmt.Appendf(nil, statusTemplate, runtime, quoted(runtime), quoted(string(schema.NewTimestamp(now))))
	return []newFile{{StatusName, status}, {cardName, card}}
}

// OfflineNotes returns a note for each recipient of a sent message that is offline according to its status
// file. It ignores files that cannot be read.
func OfflineNotes(w *mailbox.Workspace, m *schema.Message) (notes []string) {
	for _, agent := range m.To {
		status, err := durable.ReadFile(w.Root(), w.Dir(), schema.AgentPath(agent, StatusName), MaxStatus)
		switch {
		case err != nil || !strings.EqualFold(strings.TrimSpace(ParseStatus(status).Status), "offline"):
		case m.Priority == schema.P0:
			notes = append(notes, fmt.Sprintf("the message is urgent (P0), but agent %s is OFFLINE: also reach it another way", agent))
		default:
			notes = append(notes, fmt.Sprintf("agent %s is offline according to its status.yaml, and may read this late", agent))
		}
	}
	return notes
}
