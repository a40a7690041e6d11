package doctor

import (
	"context"

	"github.com/oacp-go/oacp/schema"
)

// delivery reports copies in state/outgoing.
func (i *inspection) delivery() {
	i.category = "Delivery"
	ids, others, err := i.w.Staged()
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
		for _, path := range recovered.DeadLetters {
			done = append(done, "moved to the sender's dead letters: "+path)
		}
		return done, err
	}
}
