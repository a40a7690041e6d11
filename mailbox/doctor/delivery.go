package doctor

import (
	"context"
	"fmt"

	"github.com/oacp-go/oacp/mailbox"
)

// delivery reports copies in state/outgoing.
func (i *inspection) delivery() {
	i.category = "Delivery"
	ids, others, err := i.w.Staged()
	if err != nil {
		i.fail(outgoingName, err)
		return
	}
	if len(ids) > 0 {
		message := fmt.Sprintf("has copies in %s: its delivery is running, was killed, or was refused by an inbox", outgoingName)
		if more := len(ids) - 1; more > 0 {
			message += fmt.Sprintf(", and so have %d more messages", more)
		}
		f := i.add(string(ids[0]), SeverityWarning, "oacp doctor --fix delivers or sweeps it", "%s", message)
		f.Mend = func(ctx context.Context) ([]string, error) { return recoverAll(ctx, i.w) }
	}
	for _, name := range others {
		i.add(outgoingName+"/"+name, SeverityWarning, "remove it if it is yours", "is not a staged copy")
	}
	if len(ids)+len(others) == 0 {
		i.add(outgoingName, SeverityOK, "", "nothing is stuck")
	}
}

func recoverAll(ctx context.Context, w *mailbox.Workspace) (done []string, err error) {
	recovered, err := w.Recover(ctx)
	for _, path := range recovered.Published {
		done = append(done, "delivered "+path)
	}
	for _, path := range recovered.Swept {
		done = append(done, "swept "+path)
	}
	for _, path := range recovered.DeadLetters {
		done = append(done, "moved to the sender's dead letters: "+path)
	}
	return done, err
}
