package track

import (
	"os"

	"github.com/oacp-go/oacp/internal/orphans"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// isOwn reports whether this process belongs to the running turn of the record.
func (rec *Record) isOwn() bool {
	// Some agents get only some variables, for example those in a container.
	return orphans.Inside(rec.Marks...) ||
		os.Getenv(orphans.Variable) == "" && os.Getenv("OACP_MESSAGE_ID") == string(rec.ID)
}

// OwnerOf is the owner of the processes of an agent's turns.
func OwnerOf(w *mailbox.Workspace, agent schema.AgentName) orphans.Owner {
	return orphans.OwnerOf(w.Dir(), "turn", string(agent))
}

// OwnAttempts returns the numbers of the running turns of an agent to which this process belongs, by their messages.
func OwnAttempts(w *mailbox.Workspace, agent schema.AgentName) (map[schema.ID]int, error) {
	attempts := make(map[schema.ID]int)
	return attempts, ownTurns(w, agent, func(rec *Record) { attempts[rec.ID] = rec.Attempts })
}

// ownTurns calls do with each running turn of the agent to which this process belongs.
func ownTurns(w *mailbox.Workspace, agent schema.AgentName, do func(*Record)) error {
	running, err := IsRunning(w, agent)
	if err != nil || !running {
		return err
	}
	h, err := ReadHistory(w, agent)
	if err != nil {
		return err
	}
	for _, rec := range h.Records {
		if rec.Running && rec.isOwn() {
			do(rec)
		}
	}
	return nil
}

// InheritHops counts the turn from within which a message is sent: the message gets one hop more than the one that has the
// turn. The turn is one of the sender, or of the agent that the environment names. A signed message stays as it is.
func InheritHops(w *mailbox.Workspace, m *schema.Message) error {
	if m.Auth != "" {
		return nil
	}
	agents := []schema.AgentName{m.From}
	if around := schema.AgentName(os.Getenv("OACP_AGENT")); around != m.From && around.Valid() {
		agents = append(agents, around)
	}
	hops := 0
	for _, agent := range agents {
		if err := ownTurns(w, agent, func(rec *Record) { hops = max(hops, rec.Hops+1) }); err != nil {
			return err
		}
	}
	if hops > 0 {
		m.Marks.Hops = hops
	}
	return nil
}
