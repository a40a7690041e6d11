package turn

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// Channels of the messages that a Runner writes by itself. None of them is
// ever answered automatically or bounced. Whoever sends on one of them is held
// to the same bounds as on any other; only what comes from Postmaster is a
// notice.
const (
	// ChannelBounce marks the notice that a message became a dead letter. It
	// comes from the agent that could not handle it.
	ChannelBounce = "bounce"
	// ChannelBound marks the notice that a bound on turns has tripped. It
	// comes from Postmaster, to both sides.
	ChannelBound = "bound"
)

// Postmaster is the agent in whose name notices to both sides of a
// conversation are sent. Its mailbox is made for the first of them.
const Postmaster = mailbox.Postmaster

// isNotice reports whether the message is a notice of Postmaster. Everybody
// is to read it, so it counts toward no bound and needs nobody's permission.
func isNotice(m *schema.Message) bool { return m.From == Postmaster && isAutomatic(m) }

// isAutomatic reports whether the message looks like one that a Runner writes by
// itself.
func isAutomatic(m *schema.Message) bool {
	return m.Type == schema.Notification && (m.Channel == ChannelBounce || m.Channel == ChannelBound)
}

// finishDraft gives a draft an id that depends on what it follows from alone,
// so that it is the same message whenever it is sent.
func (r *Runner) finishDraft(draft *schema.Message, cause ...string) {
	at := r.now().UTC()
	draft.CreatedAt = schema.NewTimestamp(at)
	parts := [][]byte{[]byte(r.config.Agent)}
	for _, text := range cause {
		parts = append(parts, []byte(text))
	}
	draft.ID = schema.ID("msg-" + at.Format("20060102T1504Z") + "-" + string(draft.From) + "-" + fingerprint(parts...))
}

// maxCut leaves room in a body for saying that it was cut.
const maxCut = schema.MaxBody - 500

// answer makes the answer to a message out of what the agent said, nil if
// there is none to be sent. An answer that is longer than a message may be is
// kept whole in a file, and what is sent says so.
func (r *Runner) answer(m *schema.Message, rec *record, result agent.Result) (*schema.Message, error) {
	text := strings.TrimRight(result.Text, " \t\r\n")
	if !r.config.Reply || !m.Type.ExpectsAnswer() || text == "" {
		return nil, nil
	}
	if count := utf8.RuneCountInString(text); count > schema.MaxBody || result.Truncated {
		name := filepath.Join(turnsFolder, string(r.config.Agent)+".answers", string(rec.ID)+"."+rec.Fingerprint+".txt")
		if err := r.workspace.MakeStateFolder(filepath.Dir(name)); err != nil {
			return nil, err
		}
		if err := durable.Replace(filepath.Join(r.workspace.Dir(), name), []byte(text), 0o644); err != nil {
			return nil, err
		}
		kept := "whole"
		if result.Truncated {
			kept = fmt.Sprintf("up to %d bytes", agent.MaxText)
		}
		text = fmt.Sprintf("%s\n\n[This answer was cut: a message holds %d characters. It is kept %s in %s of the workspace.]",
			firstRunes(text, maxCut), schema.MaxBody, kept, filepath.ToSlash(name))
	}
	draft := mailbox.Reply(m, r.config.Agent)
	draft.Body = schema.TextValue(text)
	r.finishDraft(&draft, "answer", string(rec.ID), rec.Fingerprint)
	return &draft, validate.Message(&draft).Err()
}

func firstRunes(text string, most int) string {
	for i := range text {
		if most == 0 {
			return text[:i]
		}
		most--
	}
	return text
}

func lastRunes(text string, most int) string {
	if over := utf8.RuneCountInString(text) - most; over > 0 {
		return "…" + text[len(firstRunes(text, over)):]
	}
	return text
}

// bounce makes the notice to the sender of a dead letter, nil if nobody can be
// told. What is automatic is never bounced: that could go on for ever.
func (r *Runner) bounce(m *schema.Message, rec *record, reason string) *schema.Message {
	if m == nil || isAutomatic(m) || m.From == r.config.Agent || !r.workspace.Knows(m.From) {
		return nil
	}
	body := fmt.Sprintf("Message %s to %s could not be handled and is now a dead letter.\n\nSubject: %s\nReason: %s\nTurns started: %d\n",
		m.ID, r.config.Agent, m.Subject, firstRunes(reason, 2000), rec.Attempts)
	if rec.Output != "" {
		body += "\nThe last turn's output ended so:\n\n" + lastRunes(rec.Output, 4000)
	}
	draft := mailbox.Reply(m, r.config.Agent)
	draft.Type, draft.Channel = schema.Notification, ChannelBounce
	draft.Subject = firstRunes("Not handled: "+m.Subject, schema.MaxSubject)
	draft.Body = schema.TextValue(strings.TrimRight(body, " \t\r\n"))
	r.finishDraft(&draft, "bounce", string(rec.ID), rec.Fingerprint)
	if validate.Message(&draft).Err() != nil {
		// The message is so bad that its fields make no valid notice.
		draft.ParentID, draft.ConversationID, draft.RelatedPacket, draft.RelatedPR = "", "", "", ""
		draft.Subject, draft.Priority = "Not handled: an invalid message", schema.DefaultPriority
	}
	return &draft
}

// boundNotice makes the notice to both sides that a bound has tripped.
func (r *Runner) boundNotice(m *envelope, reason, letGoOn string) *schema.Message {
	draft := schema.Message{
		From: Postmaster, Type: schema.Notification, Priority: schema.P1, Channel: ChannelBound,
		Subject:        firstRunes(fmt.Sprintf("Paused: %s and %s", r.config.Agent, m.From), schema.MaxSubject),
		ConversationID: m.Conversation, ParentID: m.ID,
		Body: schema.TextValue(fmt.Sprintf("%s: %s.\n\nWhat comes now waits in the inbox of %s. %s", r.config.Agent, reason, r.config.Agent, letGoOn)),
	}
	for _, name := range []schema.AgentName{r.config.Agent, m.From} {
		if name != Postmaster && r.workspace.Knows(name) && !draft.IsFor(name) {
			draft.To = append(draft.To, name)
		}
	}
	r.finishDraft(&draft, "bound", string(m.ID), m.Fingerprint, r.now().Format(time.RFC3339Nano))
	return &draft
}

// send sends a draft that has its id. Trying again after any error is safe.
// permanent reports that no further try can succeed.
func (r *Runner) send(ctx context.Context, draft *schema.Message) (permanent bool, err error) {
	_, err = r.workspace.Send(ctx, *draft, &mailbox.SendOptions{Notices: true})
	var queued *mailbox.QueuedError
	var unsure *mailbox.NotDurableError
	var unknown *mailbox.UnknownAgentError
	var invalid *validate.InvalidError
	switch {
	case err == nil, errors.As(err, &queued), errors.As(err, &unsure):
		return false, nil // it counts as sent
	case errors.Is(err, mailbox.ErrIDTaken):
		// The id is made for this message alone: another release of this
		// program sent it, and would write its file a little differently.
		return false, nil
	}
	return errors.As(err, &unknown) || errors.As(err, &invalid), err
}
