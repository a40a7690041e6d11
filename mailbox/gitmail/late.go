package gitmail

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// BlockedError says that a part of the mail waits, because a file or folder of the workspace cannot be
// read or written. All other mail is in step, and the next sync tries again.
type BlockedError struct {
	// Err is the first error. It names the file or folder.
	Err error
}

// Error says what is wrong.
func (e *BlockedError) Error() string { return "a part of the mail waits: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *BlockedError) Unwrap() error { return e.Err }

// blocked notes that changes of the tip cannot be made here. They are late: the next sync tries again.
func (e *exchange) blocked(err error, changes ...place) {
	if e.block == nil {
		e.block = &BlockedError{err}
	}
	for _, p := range changes {
		e.late[p.path()] = true
	}
}

// blockedIn is blocked for a change in a box, which then says nothing about its messages.
func (e *exchange) blockedIn(err error, change place) {
	e.aside[change.folder()] = true
	e.blocked(err, change)
}

// blockedMessage is blocked for a message: its outbox or one of the inboxes refuses it. Sent says that the
// tip adds the outbox copy. Noted as late without need, it would acknowledge the message for all but the pending.
func (e *exchange) blockedMessage(err error, outbox place, sent bool, pending []schema.AgentName) {
	var copies []place
	if sent {
		copies = append(copies, outbox)
	}
	for _, agent := range pending {
		copies = append(copies, place{agent, mailbox.Inbox, outbox.name})
	}
	e.blocked(err, copies...)
}

// addLate adds the late changes to those between base and tip.
func (e *exchange) addLate(ctx context.Context, differences []difference) ([]difference, error) {
	if e.lateList == "" {
		return differences, nil
	}
	list, err := e.r.git.Run(ctx, "cat-file", "blob", e.lateList)
	if err != nil {
		return nil, err
	}
	late := make(map[string]difference)
	var folders []string
	for path := range strings.FieldsSeq(string(list)) {
		if p, err := parsePath(path); err == nil {
			late[path] = difference{status: 'D', path: path}
			folders = append(folders, treeFolder(p.agent, p.box))
		}
	}
	slices.Sort(folders)
	err = e.r.listTree(ctx, 3, slices.Concat([]string{"-r", e.tip, "--"}, slices.Compact(folders)), func(path string, fields []string) {
		if _, ok := late[path]; ok {
			late[path] = difference{status: 'A', path: path, mode: fields[0], object: fields[2]}
		}
	})
	for _, d := range differences {
		delete(late, d.path)
	}
	return slices.AppendSeq(differences, maps.Values(late)), err
}

// noteLate records the late changes. It comes before the base moves: a sync that is killed in between
// finds them twice.
func (e *exchange) noteLate(ctx context.Context) error {
	before := e.lateList
	if e.lateList = ""; len(e.late) > 0 {
		out, err := e.r.git.RunInput(ctx, strings.NewReader(strings.Join(slices.Sorted(maps.Keys(e.late)), "\n")), "hash-object", "-w", "--stdin")
		if err != nil {
			return err
		}
		e.lateList = strings.TrimSpace(string(out))
	}
	args := []string{"update-ref", lateRef, e.lateList}
	switch {
	case e.lateList == before:
		return nil
	case e.lateList == "":
		args = []string{"update-ref", "-d", lateRef}
	}
	_, err := e.r.git.Run(ctx, args...)
	return err
}
