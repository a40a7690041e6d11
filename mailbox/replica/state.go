// Package replica merges the mailboxes of several machines: it says what a workspace knows of each message, and makes the
// workspace agree with what all machines know together. It does not depend on the carrier between the machines;
// [mailbox/gitmail] is one.
//
// # The rule
//
// What is known of a message for one recipient is a set of facts that only grows; see [internal/facts]. A sync joins what the
// workspace knows with what the carrier knows, as the union of both. The result says where the file of the message belongs:
//
//	nowhere   no file
//	pending   agents/R/inbox/NAME
//	removed   state/removed, because the agent was removed
//	dead      agents/R/dead_letter/NAME
//	handled   agents/R/inbox/archive/NAME
//
// Each machine remembers a base, the facts that it last agreed on with the others. Since then, its own verbs have noted what
// they did in marks, before they moved a file. Other programs only move files: a file in a later place than the one where this
// machine put it adds the fact that its folder stands for. A file in an earlier place is an old copy and says nothing, and
// neither does a missing file.
//
// # Why nothing is lost, doubled or revived
//
// The join is commutative, associative and idempotent, and no set ever gets smaller. So the order and the number of syncs do
// not matter, nor whether one was interrupted and is repeated, nor which history the carrier has: it may go back, or forget
// everything.
//
//   - Nothing is lost: a missing file changes nothing, so files, boxes and folders that somebody removes come back.
//   - Nothing is doubled: a message has one place for each recipient, and a file moves there without replacing anything.
//   - Nothing is revived: only a restore that nobody who ended the message had seen makes it pending again.
//   - Nothing is handled by nobody: each end is noted by a verb, or a file shows it.
//
// docs/git.md lists the limits.
package replica

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A Place is where the file of a message belongs, or is.
type Place = facts.Place

// The places, in their order.
const (
	Nowhere = facts.Nowhere
	Pending = facts.Pending
	Removed = facts.Removed
	Dead    = facts.Dead
	Handled = facts.Handled
)

// Box returns the folder of a mailbox for the files in a place. It is empty for Nowhere and Removed.
func Box(p Place) mailbox.Box {
	return [...]mailbox.Box{Pending: mailbox.Inbox, Removed: "", Dead: mailbox.DeadLetters, Handled: mailbox.Archive}[p]
}

// PlaceOf returns the place of the files in a box. It is always Pending in an outbox.
func PlaceOf(box mailbox.Box) Place {
	switch box {
	case mailbox.Archive:
		return Handled
	case mailbox.DeadLetters:
		return Dead
	}
	return Pending
}

// A Copy is a message for one recipient, or in the outbox of its sender. Name is the name of its files, which
// is the same on all machines.
type Copy struct {
	Agent schema.AgentName
	Name  string
	// Sent says that the copy is the one in the outbox. Its place is always Pending.
	Sent bool
}

// Box returns the folder that holds files of the copy in a place.
func (c Copy) Box(p Place) mailbox.Box {
	if c.Sent {
		return mailbox.Outbox
	}
	return Box(p)
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
