package track

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
)

// Noticed records that the model of an interactive session has a message.
type Noticed struct {
	// Session is the program's id of the session.
	Session string `json:"session"`
	// Program is claude or codex.
	Program string    `json:"program"`
	At      time.Time `json:"at"`
}

// NoteNoticed records in the journal of an agent that the model of a session got these messages. When
// NoteNoticed returns, the record is durable. After an error, call it again: a session notices a message
// once, however often that is recorded. Without a time, it is now.
//
// Programs call NoteNoticed while a model waits for them, so it does not read the journal. For a Runner, a
// message that was noticed is like any other.
func NoteNoticed(w *mailbox.Workspace, agent schema.AgentName, messages []Key, by Noticed) error {
	if by.Session == "" || by.Program == "" {
		return errors.New("noting that messages were noticed: the session or its program has no name")
	}
	if err := w.CheckAgent(agent); err != nil || len(messages) == 0 {
		return err
	}
	facts := make([]Fact, len(messages))
	for i, k := range messages {
		facts[i] = Fact{At: by.At, Kind: noted, Envelope: Envelope{Key: k}, Session: by.Session, Program: by.Program}
	}
	return appendFacts(w, agent, facts...)
}

// AwaitNoticed waits until every recipient of a sent message has noticed it, or got further with it: it had a turn, or
// the message left the inbox.
func AwaitNoticed(ctx context.Context, w *mailbox.Workspace, r *mailbox.Receipt) error {
	_ = w.MakeStateFolder(TurnsFolder) // a missing folder is only looked at every second
	folders := []string{filepath.Join(w.Dir(), filepath.FromSlash(TurnsFolder))}
	for _, to := range r.Message.To {
		folders = append(folders, w.BoxPath(to, mailbox.Inbox))
	}
	return watch.Await(ctx, folders, func() (bool, error) {
		progress, err := Track(ctx, w, string(r.Message.ID))
		return err == nil && !slices.ContainsFunc(progress, Progress.isUnnoticed), err
	})
}

// isUnnoticed reports whether the recipient has the message still before it.
func (p Progress) isUnnoticed() bool {
	return len(p.Noticed) == 0 && p.Attempts == 0 && (p.Stage == StageStored || p.Stage.IsPending())
}
