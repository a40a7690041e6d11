package turn

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/secrets"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// setID gives a draft its time, and an id that depends only on the time and the cause.
func (c *closer) setID(draft *schema.Message, cause ...string) {
	const timeLength = 6
	at, _ := c.times.Next(c.now())
	draft.CreatedAt = schema.NewTimestamp(at)
	parts := [][]byte{[]byte(c.config.Agent)}
	for _, text := range cause {
		parts = append(parts, []byte(text))
	}
	rand := (schema.TimeWithinMinute(at, timeLength) + track.Fingerprint(parts...))[:schema.LongRand]
	draft.ID = schema.ID("msg-" + at.Format("20060102T1504Z") + "-" + string(draft.From) + "-" + rand)
}

// maxCut leaves room in a body for the remark that it was cut.
const maxCut = schema.MaxBody - 500

// silence is what the sender of a request gets if a turn ends without an answer.
const silence = "The turn ended without an answer."

// answer makes the answer to a message from what the agent said, or returns nil if the message expects none.
// The answer may be too long: fit cuts it before it is sent.
func (c *closer) answer(m *schema.Message, rec *track.Record, result agent.Result) *schema.Message {
	text := strings.TrimRight(result.Text, " \t\r\n")
	if !c.config.Reply || !m.Type.ExpectsAnswer() {
		return nil
	}
	if result.Truncated {
		text += fmt.Sprintf("\n\n[Only the first %d bytes of the output were kept.]", agent.MaxText)
	}
	draft := conversation.Reply(m, c.config.Agent, client.DefaultOption(m).Type)
	draft.Body = schema.TextValue(text)
	draft.Marks.Final = true
	if text == "" {
		draft.Decline()
		draft.Marks.Ended = string(EndSilent)
		draft.Body = schema.TextValue(silence)
	}
	draft.Marks.Hops = rec.Hops + 1
	c.setID(&draft, "answer", string(rec.ID), rec.Fingerprint)
	return &draft
}

// refusal makes the answer to a request that the model refuses.
func (c *closer) refusal(m *schema.Message, rec *track.Record, err error) *schema.Message {
	draft := conversation.Reply(m, c.config.Agent, schema.Notification)
	draft.Body = schema.TextValue(visible.Cut(secrets.Redact(err.Error()), 2000))
	draft.Decline()
	draft.Marks.Ended = string(EndDeclined)
	draft.Marks.Hops = rec.Hops + 1
	c.setID(&draft, "answer", string(rec.ID), rec.Fingerprint)
	return &draft
}

// fit returns an answer or bounce in a form that can be sent. If it is too long, fit cuts it, and file is to have the whole text.
func (c *closer) fit(k track.Key, draft schema.Message) (_ *schema.Message, file string) {
	if text := draft.Body.Text; utf8.RuneCountInString(text) > schema.MaxBody {
		file = track.TurnsFolder + "/" + string(c.config.Agent) + ".answers/" + string(k.ID) + "." + k.Fingerprint + ".txt"
		draft.Body = schema.TextValue(fmt.Sprintf("%s\n\n[This answer was cut, because a message has at most %d characters. The whole answer is in %s of the workspace.]",
			visible.Cut(text, maxCut), schema.MaxBody, file))
	}
	return &draft, file
}

// proven returns the unsent answer or bounce of a message in a form that can be sent, and why it can never be sent: no Runner of
// the agent wrote it.
func (c *closer) proven(rec *track.Record) (draft *schema.Message, refused, err error) {
	draft, file := c.fit(rec.Key, *rec.Unsent)
	err = c.check(draft)
	refused, err = permanently(errors.Is(err, mailbox.ErrNotSealed), err)
	if err == nil && refused == nil && file != "" {
		if err = c.workspace.MakeStateFolder(path.Dir(file)); err == nil {
			err = durable.ReplaceFile(c.workspace.Root(), c.workspace.Dir(), file, []byte(rec.Unsent.Body.Text), 0o644)
		}
	}
	return draft, refused, err
}

// append writes a fact to the journal. It seals the message to send, because others may write to the journal.
func (c *closer) append(f track.Fact, isDurable bool) error {
	if f.Send != nil && f.Send.From == c.config.Agent {
		sealed, _ := c.fit(f.Key, *f.Send)
		if err := c.workspace.Seal(sealed, false); err != nil {
			return err
		}
		f.Send.Auth = sealed.Auth
	}
	return c.journal.Append(f, isDurable)
}

// check returns an error that matches mailbox.ErrNotSealed for a message that no Runner of the agent wrote.
func (c *closer) check(draft *schema.Message) error {
	if draft.From != c.config.Agent && draft.From != mailbox.Postmaster {
		return fmt.Errorf("message %s of %s %w", draft.ID, draft.From, mailbox.ErrNotSealed)
	}
	return c.workspace.CheckSeal(draft, false)
}

// unanswered makes the bounce that takes the place of an answer that cannot be sent, or nil if its
// recipient is gone.
func (c *closer) unanswered(rec *track.Record, answer *schema.Message, reason error) *schema.Message {
	if !c.workspace.Knows(rec.From) {
		return nil
	}
	text := fmt.Sprintf("%s handled message %s, but its answer cannot be sent: %v\n\nThe answer was:\n\n%s",
		c.config.Agent, rec.ID, reason, secrets.Redact(answer.Body.Text))
	return c.makeBounce(*answer, rec, "unsendable", "Not answered: "+strings.TrimPrefix(answer.Subject, "Re: "), text)
}

// makeBounce turns a draft into a bounce, which says how it ended.
func (c *closer) makeBounce(draft schema.Message, rec *track.Record, ended, subject, text string) *schema.Message {
	draft.Type = schema.Notification
	draft.Channel = schema.ChannelBounce
	draft.ContextKeys, draft.Marks = "", schema.Marks{Ended: ended}
	draft.Subject = visible.Cut(subject, schema.MaxSubject)
	draft.Body = schema.TextValue(strings.TrimRight(text, " \t\r\n"))
	c.setID(&draft, "bounce", string(rec.ID), rec.Fingerprint)
	return &draft
}

func lastRunes(text string, most int) string {
	if over := utf8.RuneCountInString(text) - most; over > 0 {
		return "…" + text[len(visible.Cut(text, over)):]
	}
	return text
}

// bounce makes the notice to the sender of a dead letter, or nil if there is nobody to send it to.
// A notice is never bounced: that could go on for ever.
func (c *closer) bounce(m *schema.Message, rec *track.Record, reason string) *schema.Message {
	if m == nil || m.IsNotice() || m.From == c.config.Agent || !c.workspace.Knows(m.From) {
		return nil
	}
	body := fmt.Sprintf("Message %s to %s could not be handled and is now a dead letter.\n\nSubject: %s\nReason: %s\nTurns started: %d\n",
		m.ID, c.config.Agent, m.Subject, visible.Cut(reason, 2000), rec.Attempts)
	if rec.Attempts > 0 { // it is valid
		body += fmt.Sprintf("\n`oacp restore %s --agent %s` tries it again.\n", m.ID, c.config.Agent)
	}
	if rec.Output != "" {
		body += "\nThe end of the last turn's output:\n\n" + lastRunes(rec.Output, 4000)
	}
	draft := c.makeBounce(conversation.Reply(m, c.config.Agent, schema.Notification), rec, "dead", "Not handled: "+m.Subject, body)
	if validate.Message(draft).Err() != nil {
		// The fields of an invalid message may not be valid in a notice either.
		draft.ParentID, draft.ConversationID, draft.RelatedPacket, draft.RelatedPR = "", "", "", ""
		draft.Subject, draft.Priority = "Not handled: an invalid message", schema.DefaultPriority
	}
	return draft
}

// boundNotice makes the notice to both sides that a bound has tripped. An agent that signs sends it itself, to the other
// side alone: nobody can verify what comes from the postmaster.
func (c *closer) boundNotice(m *track.Envelope, reason, remedy string) *schema.Message {
	draft := schema.Message{
		From: mailbox.Postmaster, Type: schema.Notification, Priority: schema.P1, Channel: schema.ChannelBound,
		Subject:        visible.Cut(fmt.Sprintf("Paused: %s and %s", c.config.Agent, m.From), schema.MaxSubject),
		ConversationID: m.Conversation, ParentID: m.ID,
		Body: schema.TextValue(fmt.Sprintf("%s: %s.\n\nFurther messages wait in the inbox of %s. %s", c.config.Agent, reason, c.config.Agent, remedy)),
	}
	if m.From != mailbox.Postmaster && c.workspace.Knows(m.From) && trust.Signs(c.workspace, c.config.Agent) {
		draft.From = c.config.Agent
	}
	for _, name := range []schema.AgentName{c.config.Agent, m.From} {
		if name != mailbox.Postmaster && name != draft.From && c.workspace.Knows(name) && !draft.IsFor(name) {
			draft.To = append(draft.To, name)
		}
	}
	c.setID(&draft, "bound", string(m.ID), m.Fingerprint, c.now().Format(time.RFC3339Nano))
	return &draft
}

// send sends a draft that has its id. Sending it again after an error is safe. permanent reports
// that no further try can succeed.
func (c *closer) send(draft *schema.Message) (permanent bool, err error) {
	if err := c.check(draft); err != nil {
		return errors.Is(err, mailbox.ErrNotSealed), err
	}
	unsealed := *draft
	unsealed.Auth = "" // Send signs it
	_, err = c.workspace.Send(context.Background(), unsealed, &mailbox.SendOptions{Notices: true, Impatient: true})
	var queued *mailbox.QueuedError
	var unsynced *mailbox.NotDurableError
	var unknown *mailbox.UnknownAgentError
	var invalid *validate.InvalidError
	switch {
	case err == nil, errors.As(err, &queued), errors.As(err, &unsynced):
		return false, nil // it counts as sent
	case errors.Is(err, mailbox.ErrIDTaken):
		// Only this message has the id: another version of the program sent it, with other bytes.
		return false, nil
	}
	// If the agent's own mailbox is missing too, all mailboxes are: git has checked out another branch, or
	// a file system is not mounted. That is not permanent.
	return errors.As(err, &unknown) && c.workspace.CheckAgent(c.config.Agent) == nil || errors.As(err, &invalid), err
}
