package mailbox

import (
	"context"
	"errors"
	"io/fs"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// delivery reports copies that lie in state/outgoing.
func (i *inspection) delivery() {
	i.category = "Delivery"
	dir, err := durable.OpenDir(i.w.root, i.w.dir, outgoingName)
	if errors.Is(err, fs.ErrNotExist) {
		i.add(outgoingName, SeverityOK, "", "nothing was sent yet")
		return
	}
	if err != nil {
		i.fail(outgoingName, err)
		return
	}
	names, err := dir.Names()
	if err = errors.Join(err, dir.Close()); err != nil {
		i.fail(outgoingName, err)
		return
	}
	groups := groupStaged(names)
	for _, left := range groups {
		f := i.add(string(left.id), SeverityWarning, "oacp doctor --fix delivers or sweeps it",
			"has copies in %s: a delivery that runs right now, was killed, or was refused by an inbox", outgoingName)
		f.Mend = i.mendDelivery(left)
	}
	for _, name := range names {
		if _, _, ok := parseStagedName(name); !ok {
			i.add(outgoingName+"/"+name, SeverityWarning, "remove it if it is yours", "is no staged copy")
		}
	}
	if len(names) == 0 {
		i.add(outgoingName, SeverityOK, "", "nothing is stuck")
	}
}

// leftCopies reports copies that died on their way to where messages are moved.
func (i *inspection) leftCopies(agent schema.AgentName) {
	for _, box := range []Box{Archive, DeadLetters} {
		dir, err := i.w.openBox(agent, box)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			i.fail(boxName(agent, box), err)
			continue
		}
		left, err := i.w.leftCopies(dir)
		if err = errors.Join(err, dir.Close()); err != nil {
			i.fail(boxName(agent, box), err)
		}
		if len(left) > 0 {
			f := i.add(boxName(agent, box), SeverityWarning, "oacp doctor --fix removes them",
				"has %d unfinished copies of messages that were moved here from another file system when a process died, such as %s", len(left), left[0])
			f.Mend = i.mendCopies(agent, box)
		}
	}
}

func (i *inspection) mendCopies(agent schema.AgentName, box Box) func(context.Context) ([]string, error) {
	return func(context.Context) (done []string, err error) {
		dir, err := i.w.openBox(agent, box)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, dir.Close()) }()
		swept, err := i.w.sweepCopies(dir)
		for _, path := range swept {
			done = append(done, "swept "+path)
		}
		return done, err
	}
}

func (i *inspection) mendDelivery(left *leftovers) func(context.Context) ([]string, error) {
	return func(context.Context) (done []string, err error) {
		b, err := i.w.openBatch(nil)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, b.close()) }()
		var recovered Recovered
		err = b.recoverMessage(left, &recovered)
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
