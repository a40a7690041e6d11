package doctor

import (
	"context"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// delivery reports copies in state/outgoing.
func (i *inspection) delivery() {
	i.category = "Delivery"
	ids, others, err := i.w.Outgoing()
	if err != nil {
		i.fail(outgoingName, err)
		return
	}
	for _, id := range ids {
		f := i.add(string(id), SeverityWarning, "oacp doctor --fix delivers or sweeps it",
			"has copies in %s: its delivery is running, was killed, or was refused by an inbox", outgoingName)
		f.Mend = i.mendDelivery(id)
	}
	for _, name := range others {
		i.add(outgoingName+"/"+name, SeverityWarning, "remove it if it is yours", "is not a staged copy")
	}
	if len(ids)+len(others) == 0 {
		i.add(outgoingName, SeverityOK, "", "nothing is stuck")
	}
}

func (i *inspection) mendDelivery(id schema.ID) func(context.Context) ([]string, error) {
	return func(context.Context) (done []string, err error) {
		recovered, err := i.w.RecoverMessage(id)
		for _, path := range recovered.Published {
			done = append(done, "delivered "+path)
		}
		for _, path := range recovered.Swept {
			done = append(done, "swept "+path)
		}
		for _, path := range recovered.Buried {
			done = append(done, "moved to the sender's dead letters: "+path)
		}
		return done, err
	}
}

// leftCopies reports copies whose move from another file system did not finish.
func (i *inspection) leftCopies(agent schema.AgentName) {
	for _, box := range []mailbox.Box{mailbox.Archive, mailbox.DeadLetters} {
		left, err := i.w.LeftCopies(agent, box)
		if err != nil {
			i.fail(mailbox.BoxName(agent, box), err)
		}
		if len(left) == 0 {
			continue
		}
		f := i.add(mailbox.BoxName(agent, box), SeverityWarning, "oacp doctor --fix removes them",
			"has %d unfinished copies of messages that were moved here from another file system when a process died, such as %s",
			len(left), left[0])
		f.Mend = func(context.Context) (done []string, err error) {
			swept, err := i.w.SweepCopies(agent, box)
			for _, path := range swept {
				done = append(done, "swept "+path)
			}
			return done, err
		}
	}
}
