package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/live"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/turn/track"
)

// A statusCall is a call of status or owed.
type statusCall struct{ *call }

func newStatusCommand(s *command.Streams) *cli.Command {
	c := statusCall{newCall(s)}
	return &cli.Command{
		Name:      "status",
		Category:  command.CategoryMessages,
		Usage:     "show agents and progress",
		ArgsUsage: "[ID]",
		Description: `Without an ID, status shows for each agent its runner, pending messages, last turn,
the number of failed turns since the last success, and its conversations. Below them is
what is known of it: open sessions, its turn, what it said (oacp working), and the
command that waits for its mail, or else its last one.

With an ID, status shows the replies to the message and its stage for each recipient:

   not_sent       no sync has sent it to other machines yet
   stored         sent, but not in the inbox yet
   waiting        in the inbox
   noticed        in the inbox, and read, or a live session has it
   working        a turn works on it, or the recipient says that it does
   held, expired  in the inbox, and gets no turn
   done           acknowledged, or its turn succeeded
   answered       it has an answer
   declined       the recipient said why it will not do it
   dead           given up
   recalled       its sender took it back
   agent_removed  its recipient was removed before it handled it
   unknown        its mailbox cannot be read, or no copy is left

"asked ID" beside a stage is a question back, and "ID answered" one with its answer.

EXAMPLES:
   oacp status
   oacp status ID --json`,
		Flags:  c.flagsWith(),
		Action: c.inWorkspace(1, c.status),
	}
}

// An agentStatus is the status of an agent, as JSON.
type agentStatus struct {
	track.AgentStatus
	Sessions []sessionEntry `json:"sessions,omitempty"`
}

// statusesOf returns the status of each agent.
func statusesOf(ctx context.Context, w *mailbox.Workspace) ([]agentStatus, error) {
	turns, err := track.Status(ctx, w)
	if _, err := mailbox.SplitUnreadable(err); err != nil {
		return nil, err
	}
	sessions, sessionErr := live.Sessions(w)
	if both, failed := mailbox.SplitUnreadable(sessionErr); both != nil && failed == nil {
		err, sessionErr = cmp.Or(err, sessionErr), nil
	}
	statuses := make([]agentStatus, 0, len(turns))
	for _, a := range turns {
		status := agentStatus{AgentStatus: a}
		for _, session := range sessions {
			if session.Agent == a.Agent {
				status.Sessions = append(status.Sessions, entryOf(&session))
			}
		}
		statuses = append(statuses, status)
	}
	return statuses, cmp.Or(sessionErr, err)
}

func (c statusCall) status(w *mailbox.Workspace) error {
	if len(c.words) == 1 {
		return c.showProgress(w, c.words[0])
	}
	statuses, err := statusesOf(c.ctx, w)
	unreadable, err := mailbox.SplitUnreadable(err)
	if err != nil {
		return err
	}
	left := leftOut(c.call, w)
	var synced time.Time
	repository, _ := openRepository(c.ctx, w) // the rest is true without it
	if repository != nil {
		synced, _ = repository.LastSync()
	}
	err = c.answer(struct {
		envelope
		Agents   []agentStatus     `json:"agents"`
		LeftOut  []gitmail.LeftOut `json:"left_out,omitempty"`
		LastSync time.Time         `json:"last_sync,omitzero"` // when it began
	}{envelopeOf(w), statuses, left, synced.UTC().Truncate(time.Second)}, func() {
		printStatuses(w, statuses, c.Streams)
		printLeftOut(c.call, left, false)
		if !synced.IsZero() {
			c.Printf("last sync with %s: %s ago\n", visible.Line(repository.Settings().Name()), spelling.Age(synced, c.Now()))
		}
	})
	switch {
	case err != nil || unreadable == nil:
		return err
	case c.asJSON: // it has the reasons
		return &failure.StatusError{Status: 1}
	}
	return unreadable
}

// leftOut returns the agents of other machines that the workspace leaves out.
func leftOut(c *call, w *mailbox.Workspace) []gitmail.LeftOut {
	left, err := gitmail.ReadLeftOut(w)
	if err != nil { // all else is as it should be
		c.Warn(err.Error())
	}
	return left
}

// printLeftOut prints which agents of other machines the workspace leaves out, perhaps with their pending mail, and what to do.
func printLeftOut(c *call, left []gitmail.LeftOut, withMail bool) {
	for _, l := range left {
		c.Printf("%s: %d pending on other machines; %s\n", visible.Line(string(l.Agent)), len(l.Pending), visible.Line(l.Error()))
		for _, name := range l.Pending {
			if withMail {
				c.Printf("  %s\n", visible.Line(name))
			}
		}
		_, hint := l.Explain()
		c.Printf("hint: %s\n", visible.Line(hint))
	}
}

func printStatuses(w *mailbox.Workspace, statuses []agentStatus, s *command.Streams) {
	if len(statuses) == 0 {
		printNoAgents(s)
		return
	}
	now := s.Now()
	t := newTable(s, row{"Agent", "Runner", "Pending", "Oldest", "Dead", "Failures", "Last turn"})
	for _, a := range statuses {
		if a.Unreadable != "" {
			t.add(a.Agent, "unreadable", "-", "-", "-", "-", "-")
			continue
		}
		oldest := "-"
		if !a.Oldest.IsZero() {
			oldest = spelling.Age(a.Oldest, now)
		}
		t.add(a.Agent, runnerText(a.AgentStatus, s), a.Pending, oldest, a.DeadLetters, a.Failures, lastTurnText(a.AgentStatus, now))
	}
	t.print()
	for _, a := range statuses {
		printDetails(w, a, now, s)
	}
}

// printDetails prints the parts of a status that most agents do not have.
func printDetails(w *mailbox.Workspace, a agentStatus, now time.Time, s *command.Streams) {
	for _, idle := range []struct {
		count int
		what  string
	}{{a.Held, "held"}, {a.Expired, "expired"}, {a.Invalid, "invalid"}} {
		if idle.count > 0 {
			s.Printf("%s: %d %s in the inbox\n", a.Agent, idle.count, idle.what)
		}
	}
	facts, _ := live.Presence(w, &a.AgentStatus, now)
	if project.IsPerson(w, a.Agent) {
		facts = append([]string{"a person"}, facts...)
	}
	if len(facts) == 0 && a.Last == nil {
		facts = []string{"nothing known"}
	}
	for _, fact := range facts {
		s.Printf("%s: %s\n", a.Agent, visible.Line(fact))
	}
	for _, c := range a.Conversations {
		bound := ""
		if c.Bound {
			bound = paint(s, yellow, "; it waits for oacp thread resume "+string(c.ID))
		}
		s.Printf("%s: %s with %s, %s%s\n", a.Agent, visible.Line(string(c.ID)), c.With, spelling.Plural(c.Turns, "turn"), bound)
	}
}

func runnerText(a track.AgentStatus, s *command.Streams) string {
	if !a.Running {
		return "-"
	}
	words := "runs"
	if a.Runner != nil {
		words = fmt.Sprintf("%d@%s", a.Runner.PID, visible.Line(a.Runner.Host))
	}
	return paint(s, green, words)
}

func lastTurnText(a track.AgentStatus, now time.Time) string {
	switch {
	case a.Last == nil:
		return "-"
	case a.Last.Succeeded:
		return "done " + spelling.Age(a.Last.Ended, now) + " ago: " + visible.Line(a.Last.Subject)
	}
	return "failed " + spelling.Age(a.Last.Ended, now) + " ago: " + visible.Line(a.Last.Reason)
}

func (c statusCall) showProgress(w *mailbox.Workspace, id string) error {
	progress, err := track.Track(c.ctx, w, id)
	turn.AddClaims(c.ctx, w, progress)
	if len(progress) == 0 {
		return err
	}
	return errors.Join(c.answer(struct {
		ID         string           `json:"id"`
		Recipients []track.Progress `json:"recipients"`
	}{string(progress[0].ID), progress}, func() { printProgress(progress, c.Streams) }), err)
}

// printProgress prints a line for each recipient, and one for each reply.
func printProgress(progress []track.Progress, s *command.Streams) {
	s.Printf("%s\n", visible.Line(string(progress[0].ID)))
	for _, p := range progress {
		line := fmt.Sprintf("  %s: %s", p.Agent, stageWord(p.Stage, s))
		if p.Stage == track.StageNoticed && len(p.Noticed) > 0 {
			line += noticedText(p.Noticed, s)
		}
		line += visible.Line(p.Said(s.Now()))
		if p.Attempts > 1 && p.Stage != track.StageDead { // the reason says so
			line += ", after " + spelling.Plural(p.Attempts, "turn")
		}
		if p.Reason != "" {
			line += ": " + visible.Line(p.Reason)
		}
		if !p.RetryAt.IsZero() {
			line += "; again at " + s.Clock(p.RetryAt)
		}
		if c := p.Claim; c != nil {
			line += fmt.Sprintf("; claimed by %s", c.Machine)
			if c.Attempt > 0 {
				line += fmt.Sprintf(", turn %d", c.Attempt)
			}
			line += fmt.Sprintf(", since %s, renewed %s", s.Clock(c.Since), s.Clock(c.Renewed))
		}
		if len(p.Noticed) > 0 && p.Stage != track.StageNoticed {
			line += "; noticed" + noticedText(p.Noticed, s)
		}
		for _, holder := range p.Offered {
			if !p.Stage.IsPending() {
				break
			}
			line += "; offered to " + holderText(holder.Holder) + " at " + s.Clock(holder.At)
		}
		s.Printf("%s\n", line)
		printReplies(p, s)
	}
}

// shortSession returns the beginning of a long id of a session.
func shortSession(id string) string {
	const shown = 8
	if len(id) > shown {
		id = id[:shown] + "…"
	}
	return id
}

// noticedText says which session noticed a message first and when, and how many others did.
func noticedText(by []track.Noticed, s *command.Streams) string {
	first := by[0]
	at := s.Clock(first.At)
	if s.Now().Sub(first.At) >= 24*time.Hour {
		at = s.Time(first.At)
	}
	text := " at " + at
	if first.Session != "" {
		text = fmt.Sprintf(" by %s session %s%s", visible.Line(first.Program), visible.Line(shortSession(first.Session)), text)
	}
	if more := len(by) - 1; more > 0 {
		text += ", and by " + spelling.Plural(more, "more session")
	}
	return text
}

// printReplies prints a line for each reply.
func printReplies(p track.Progress, s *command.Streams) {
	isListed := false
	for _, r := range p.Replies {
		what := "reply: "
		switch {
		case r.Answers && r.Outdated:
			what = "before the restore:"
		case r.Declines:
			what = "declined:"
		case r.Answers:
			what = "answer:"
		}
		isListed = isListed || r.ID == p.Answer
		s.Printf("    %s %s, a %s\n", what, visible.Line(string(r.ID)), visible.Line(string(r.Type)))
	}
	if p.Answer != "" && !isListed { // its file is gone
		s.Printf("    answer: %s\n", visible.Line(string(p.Answer)))
	}
}
