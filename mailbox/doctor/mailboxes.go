package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// mailboxes checks that each agent's folders are folders, inside the workspace, and writable.
func (i *inspection) mailboxes() {
	i.category = categoryMailboxes
	names, err := i.names(schema.AgentsName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		i.fail(schema.AgentsName, err)
		return
	}
	for _, name := range names {
		_, err := schema.ParseAgentName(name)
		switch {
		case strings.HasPrefix(name, "."):
		case err != nil:
			i.add(schema.AgentsName+"/"+name, SeverityWarning, "rename or remove it", "is not a mailbox: %v", err)
		case !i.w.Knows(schema.AgentName(name)):
			i.add(schema.AgentsName+"/"+name, SeverityWarning, "remove it", "is not a folder in the workspace")
		}
	}
	for k, agent := range i.agents {
		before := len(i.findings)
		if same, ok := errors.AsType[*mailbox.SameNameError](mailbox.CheckNewAgent(agent, i.agents[:k])); ok {
			i.add(string(agent), SeverityWarning, "macOS and Windows have one folder for both: move the mail of one away before the workspace goes there",
				"differs from %s only in case", same.Other)
		}
		for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.DeadLetters, mailbox.Archive} {
			i.folder(agent, box)
		}
		card := schema.AgentsName + "/" + string(agent) + "/agent_card.yaml"
		if _, err := i.read(card); err != nil && !errors.Is(err, fs.ErrNotExist) {
			i.add(card, SeverityError, "replace it by a plain file", "%v", err)
		}
		if len(i.findings) == before {
			i.add(string(agent), SeverityOK, "", "its folders are writable")
		}
	}
}

func (i *inspection) folder(agent schema.AgentName, box mailbox.Box) {
	name := schema.BoxPath(agent, box)
	err := i.writable(name, "make it writable, or messages stay queued")
	if errors.Is(err, fs.ErrNotExist) && (box == mailbox.Inbox || box == mailbox.Archive || agent == mailbox.Postmaster) {
		return // see inbox; the archive is made when it is needed, and Postmaster has only an outbox
	}
	if errors.Is(err, fs.ErrNotExist) {
		f := i.add(name, SeverityWarning, "oacp doctor --fix makes it", "is missing")
		f.Mend = mend("made "+name, func() error { return i.w.MakeFolder(name) })
		return
	}
	if err != nil {
		i.add(name, SeverityError, "a mailbox folder is a real folder inside the workspace", "%v", err)
	}
}

// writable reports a folder that this process cannot write to. It returns an error if it cannot open
// the folder.
func (i *inspection) writable(name, hint string) error {
	dir, err := durable.OpenDir(i.w.Root(), i.w.Dir(), name)
	if err != nil {
		return err
	}
	if err := dir.Writable(); err != nil {
		i.add(name, SeverityError, hint, "%v", err)
	}
	if err := dir.Close(); err != nil {
		i.fail(name, err)
	}
	return nil
}

// state reports a state folder, or one with the sessions and errors of hooks, that is not writable. It also
// reports entries below state that are neither folders nor files, which commands refuse.
func (i *inspection) state(ctx context.Context) {
	i.category = categoryDelivery
	for _, name := range []string{schema.StateName, project.SessionsFolder} {
		before := len(i.findings)
		err := i.writable(name, "make it writable, or sessions get no mail")
		if err != nil || len(i.findings) > before {
			break
		}
		if name == schema.StateName {
			i.room()
		}
	}
	err := i.walk(ctx, schema.StateName, func(name string, info fs.FileInfo) {
		if !info.Mode().IsRegular() {
			i.add(name, SeverityError, "remove it", "is neither a folder nor a plain file")
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		i.add(schema.StateName, SeverityError, "remove it, or make it a readable folder", "%v", err)
	}
}

// room reports a disk on which a message, which has tens of kilobytes at most as a rule, cannot be stored. Only
// writing tells: systems keep some space from users, who may have quotas.
func (i *inspection) room() {
	name := schema.StateName + "/.tmp-doctor-" + rand.Text()
	_, err := i.w.AddFile(name, make([]byte, 64<<10))
	if err == nil {
		err = i.w.Root().Remove(name)
	}
	if err != nil {
		i.add(schema.StateName, SeverityError, "free disk space, or messages are refused", "%v", err)
	}
}

// walk visits the files in a folder and below it. It omits those that vanish.
func (i *inspection) walk(ctx context.Context, folder string, visit func(name string, info fs.FileInfo)) error {
	names, err := i.names(folder)
	if err != nil {
		return err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name = folder + "/" + name
		info, err := i.w.Root().Lstat(name)
		switch {
		case err == nil && info.IsDir():
			err = i.walk(ctx, name, visit)
		case err == nil:
			visit(name, info)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// deadLetters reports how many dead letters an agent has.
func (i *inspection) deadLetters(agent schema.AgentName) {
	i.category = categoryDeadLetters
	names, err := i.names(schema.BoxPath(agent, mailbox.DeadLetters))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		i.fail(string(agent), err)
		return
	}
	letters := len(slices.DeleteFunc(names, func(name string) bool { return !schema.IsMessageFile(name) }))
	if letters > 0 {
		i.add(string(agent), SeverityWarning, "oacp list --box dead_letter --agent "+string(agent)+" shows them, oacp restore ID tries one again",
			"%s", spelling.Count(letters, "dead letter"))
	}
}

// delivery reports copies in state/outgoing.
func (i *inspection) delivery() {
	i.category = categoryDelivery
	ids, others, err := i.w.Staged()
	if err != nil {
		i.fail(outgoingName, err)
		return
	}
	if len(ids) > 0 {
		message := "has copies in " + outgoingName + ": its delivery is running, was killed, or was refused by an inbox"
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
