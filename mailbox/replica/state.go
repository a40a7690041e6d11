// Package replica merges the mailboxes of several machines: it defines the states of a message, how two of
// them join, which state a workspace has, and how it takes the state that was agreed on. It does not depend
// on the carrier between the machines; [mailbox/gitmail] is one.
//
// # The rule
//
// For each recipient, a message is in one of four stages. A stage is a file:
//
//	unknown   no file
//	pending   agents/R/inbox/NAME
//	dead      agents/R/dead_letter/NAME
//	handled   agents/R/inbox/archive/NAME
//
// Within an epoch, a stage only grows. Restoring a message, which makes the stage smaller again, begins the
// next epoch. [Join] of two states is the one that is known; if both are, the one with the greater epoch; if
// the epochs are equal, the one with the greater stage. The join of outboxes is their union.
//
// Each machine remembers a base, the states that it last agreed on with the others. [Here] is its own state of
// a message: the stage of its file, in the epoch of the base, or in the next epoch if the base has a greater
// stage. Without a file, it is the state in the base.
//
// A sync joins the states of the machine with those of the carrier, moves the files of the machine to agree
// with the result, records the result as the base, and gives it to the carrier.
//
// # Why nothing is lost, doubled or revived
//
// Join is commutative, associative and idempotent, and its result is never smaller than either side. So the
// order and the number of syncs do not matter, nor whether one was interrupted and is repeated, nor which
// history the carrier has: it may go back, or forget everything.
//
//   - Nothing is lost: no sync makes a state smaller, and a missing file changes no state.
//     Files, boxes and folders that somebody removes come back with the next sync.
//   - Nothing is doubled: a message has one state for each recipient, and a file moves from one folder to
//     another without replacing anything.
//   - Nothing is revived: pending is smaller than handled, so a machine that was away cannot bring a handled
//     message back. Only a restore can, because nothing else raises the epoch.
//   - Nothing is handled by nobody: the stage handled comes from a file in an archive, or from a machine that
//     had one.
//
// Two cases remain. First, suppose that a sync puts a message that was restored elsewhere into the inbox, and
// is killed before it records the base. If an agent handles the message before the next sync, it comes back
// once more. Second, a handled message is gone if all its files were pruned or removed.
package replica

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A Stage says how far a recipient got with a message.
type Stage uint8

// The stages, in their order.
const (
	Unknown Stage = iota
	Pending
	Dead
	Handled
)

// boxes are the folders with the files of the stages.
var boxes = [...]mailbox.Box{Unknown: "", Pending: mailbox.Inbox, Dead: mailbox.DeadLetters, Handled: mailbox.Archive}

// Box returns the folder that holds files of the stage. It is empty for Unknown.
func (s Stage) Box() mailbox.Box { return boxes[s] }

// StageOf returns the stage of the files in a box. It is always Pending in an outbox.
func StageOf(box mailbox.Box) Stage {
	for stage := Dead; stage <= Handled; stage++ {
		if stage.Box() == box {
			return stage
		}
	}
	return Pending
}

// A State is the state of a message for one recipient. The zero value is unknown.
type State struct {
	// Epoch counts the restores.
	Epoch int
	Stage Stage
}

// Join returns the state that two sides agree on.
func Join(a, b State) State {
	switch {
	case a.Stage == Unknown:
		return b
	case b.Stage == Unknown:
		return a
	case a.Epoch != b.Epoch:
		if a.Epoch > b.Epoch {
			return a
		}
		return b
	case a.Stage > b.Stage:
		return a
	}
	return b
}

// Here returns the state of a message in a workspace, from the stage of its file and the state in the base. A
// stage only grows within an epoch, so a file with a smaller stage was restored here.
func Here(file Stage, base State) State {
	switch {
	case file == Unknown:
		return base
	case file < base.Stage:
		return State{base.Epoch + 1, file}
	}
	return State{base.Epoch, file}
}

// A Copy is a message for one recipient, or in the outbox of its sender. Name is the name of its files, which
// is the same on all machines.
type Copy struct {
	Agent schema.AgentName
	Name  string
	// Sent says that the copy is the one in the outbox. Its stage is always Pending.
	Sent bool
}

// Box returns the folder that holds files of the copy in a stage.
func (c Copy) Box(s Stage) mailbox.Box {
	if c.Sent {
		return mailbox.Outbox
	}
	return s.Box()
}

// String returns the agent and the name.
func (c Copy) String() string { return string(c.Agent) + "/" + c.Name }

// longestName bounds file names, in bytes: file systems allow 255, and a dead letter has a file with a suffix.
const longestName = 255 - len(mailbox.ReasonSuffix)

// Check returns an error if the name is not a message's, if another machine might give it to another message, or
// if the copy is in the outbox of an agent and the name says that another agent sent it. The name of every file in a
// folder or a tree is checked before anything is done with it.
func (c Copy) Check() error {
	if len(c.Name) > longestName {
		return errors.New("its name is too long")
	}
	parsed, err := schema.ParseFileName(c.Name)
	switch {
	case err == nil && parsed.Rand == "":
		err = errors.New("its name has no random part")
	case err == nil && c.Sent && parsed.From != c.Agent:
		err = fmt.Errorf("its name says that %s sent it", parsed.From)
	}
	return err
}

// Sender returns the agent that sent a message, from the name of its file.
func Sender(name string) schema.AgentName {
	parsed, _ := schema.ParseFileName(name) // the caller has checked the name
	return parsed.From
}

// Day returns the day in the name of a message file, such as 20261121. It is empty for other names.
func Day(name string) string {
	parsed, err := schema.ParseFileName(name)
	if err != nil {
		return ""
	}
	return parsed.At.UTC().Format("20060102")
}

// shortName returns the short name that a message with this long name may have in a workspace; empty if there
// is none. Messages have short names if they were sent before the workspace was shared.
func shortName(name string) string {
	parsed, err := schema.ParseFileName(name)
	if err != nil || parsed.Rand == "" || parsed.Suffix != "" {
		return ""
	}
	return strings.TrimSuffix(name, "_"+parsed.Rand+schema.FileExtension) + schema.FileExtension
}
