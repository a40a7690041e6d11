package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// mailboxes checks that the boxes of each agent are writable folders inside the workspace. Missing ones are
// made when they are needed.
func (i *inspection) mailboxes() {
	i.category = categoryMailboxes
	for _, agent := range i.agents {
		before := len(i.findings)
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.DeadLetters, mailbox.Archive} {
			i.writable(schema.BoxPath(agent, box), "make it a writable folder inside the workspace, or messages stay queued")
		}
		if len(i.findings) == before {
			i.add(string(agent), SeverityOK, "", "its folders are writable")
		}
	}
}

// writable reports a folder that this process cannot write to, unless it is missing.
func (i *inspection) writable(name, hint string) {
	dir, err := durable.OpenDir(i.w.Root(), i.w.Dir(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = errors.Join(dir.Writable(), dir.Close())
	}
	if err != nil {
		i.add(name, SeverityError, hint, "%v", err)
	}
}

// deadLetters reports how many dead letters an agent has.
func (i *inspection) deadLetters(agent schema.AgentName) {
	i.category = categoryDeadLetters
	names, err := durable.ListFolder(i.w.Root(), i.w.Dir(), schema.BoxPath(agent, mailbox.DeadLetters))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		i.fail(string(agent), err)
		return
	}
	letters := len(slices.DeleteFunc(names, func(name string) bool {
		return !schema.IsMessageFile(name) || mailbox.RecalledBy(i.w, mailbox.Entry{Agent: agent, Name: name}) != ""
	}))
	if letters > 0 {
		i.add(string(agent), SeverityWarning, "oacp list --box dead_letter --agent "+string(agent)+" shows them, oacp restore ID tries one again",
			"%s", spelling.Plural(letters, "dead letter"))
	}
}

// delivery reports copies in state/outgoing, temporary files, and state folders that cannot be written.
func (i *inspection) delivery(ctx context.Context) {
	i.category = categoryDelivery
	ids, err := i.w.Staged()
	switch {
	case err != nil:
		i.fail(outgoingName, err)
	case len(ids) > 0:
		message := "has copies in " + outgoingName + ": its delivery is running, was killed, or was refused by an inbox"
		if more := len(ids) - 1; more > 0 {
			message += fmt.Sprintf(", and so have %d more messages", more)
		}
		i.add(string(ids[0]), SeverityWarning, "oacp doctor --fix delivers or sweeps it", "%s", message)
	default:
		i.add(outgoingName, SeverityOK, "", "nothing is stuck")
	}
	if left, err := mailbox.Sweep(ctx, i.w, true); err != nil {
		i.fail("temporary files", err)
	} else if len(left) > 0 {
		i.add(filepath.ToSlash(strings.TrimPrefix(left[0], i.w.Dir()+string(filepath.Separator))), SeverityWarning, "oacp doctor --fix removes them",
			"killed processes left %s", spelling.Plural(len(left), "temporary file"))
	}
	if i.hasRoom() {
		i.writable(project.SessionsFolder, "make it writable, or sessions get no mail")
	}
}

// hasRoom writes a file as large as a long message to the state folder, and reports whether that works. Nothing else
// shows whether there is room: systems reserve space, and users have quotas. A missing folder is made when it is needed.
func (i *inspection) hasRoom() bool {
	name := schema.StateName + "/.tmp-doctor-" + rand.Text()
	_, err := i.w.AddFile(name, make([]byte, 64<<10))
	if err == nil {
		err = i.w.Root().Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		i.add(schema.StateName, SeverityError, "free disk space, or make it a writable folder: messages are refused", "%v", err)
	}
	return err == nil
}
