package pair

import (
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/bridge"
)

// promptOf returns the prompt of a turn. It is complete by itself: the agent need not remember
// anything.
func (m *Manifest) promptOf(a *attempt) string {
	var b strings.Builder
	if m.State == Reviewing {
		m.askForReview(&b, a.turn.Agent)
	} else {
		m.askForWork(&b)
	}
	if a.repeated {
		b.WriteString("\nYour last turn may have been cut off. Look at what is there already, and continue from there.\n")
	}
	fmt.Fprintf(&b, "\nTHE TASK\n\n%s\n", strings.TrimSpace(m.Prompt))
	for _, message := range a.messages {
		heading := strings.ToUpper(string(message.Type))
		if message.Type == bridge.TypeSignal {
			heading += " " + string(message.Signal)
		}
		fmt.Fprintf(&b, "\n%s FROM %s\n\n%s\n", heading, message.From, strings.TrimSpace(message.Content))
	}
	return b.String()
}

func (m *Manifest) askForWork(b *strings.Builder) {
	fmt.Fprintf(b, "You are %s and work on the task below, in the current folder. This is iteration %d of at most %d.\n",
		m.PrimaryAgent, m.CurrentIteration, m.MaxIterations)
	if len(m.settings().reviewers()) > 0 {
		b.WriteString("Your work will be reviewed. Do what the reviews below ask for, if there are any, and say what you did.\n")
	}
	fmt.Fprintf(b, "If all of the task is done, end your answer with a line that holds only the word %s.\n", m.DoneSignal)
	b.WriteString("If it cannot be done at all, say why and end with a line that holds only the word FAIL.\n")
	if m.ProofCommand != "" {
		fmt.Fprintf(b, "It is done only if this command succeeds, which you may run exactly as it is: %s\n", m.settings().proofText())
	}
}

func (m *Manifest) askForReview(b *strings.Builder, reviewer Agent) {
	fmt.Fprintf(b, "You are %s and review how %s did the task below, in the current folder. Do not change files. This is iteration %d of at most %d.\n",
		reviewer, m.PrimaryAgent, m.CurrentIteration, m.MaxIterations)
	b.WriteString("Look at the files themselves. If all of the task is done, and well, end your answer with a line that holds only the word PASS.\n")
	b.WriteString("Otherwise say what must change, and end with a line that holds only the word FAIL.\n")
	if m.Round.Proven {
		fmt.Fprintf(b, "This command has succeeded: %s\n", m.settings().proofText())
	}
}
