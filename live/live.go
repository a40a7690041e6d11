// Package live shows the interactive sessions of claude and codex the mail of their agent.
//
// The hooks of a session call `oacp hook`, which passes each event to Hook.Handle:
//
//	SessionStart      names the agent, its waiting mail, and the answers that it owes
//	UserPromptSubmit  adds new mail, and more of the mail that did not fit before
//	PostToolUse       adds new mail
//	Stop              holds the session if there is new mail that should wake it, or an answer is owed
//	FileChanged       wakes the session for such mail (claude only)
//	SessionEnd        forgets the session
//
// Hooks show a message once to each session, and again if the program may have dropped the prompt that it came with.
// It is noticed when the model has answered a request that contained it: see proof. An idle codex has no event for
// new mail, so Follow sends it a prompt: it rings.
//
// The state is in state/live/AGENT/SESSION.json. It need not survive a crash of the machine, which also
// ends the sessions.
package live

import (
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// A Program is one whose sessions have hooks.
type Program string

// The programs.
const (
	Claude Program = "claude"
	Codex  Program = "codex"
)

// Programs returns all programs.
func Programs() []Program { return []Program{Claude, Codex} }

// Events of hooks.
const (
	SessionStart     = "SessionStart"
	UserPromptSubmit = "UserPromptSubmit"
	PostToolUse      = "PostToolUse"
	Stop             = "Stop"
	FileChanged      = "FileChanged"
	SessionEnd       = "SessionEnd"
)

// wakes reports whether a message is worth a turn of an idle session. Expired messages and notices are not, and a
// notification is only if it is a reply or urgent.
func wakes(m *schema.Message, now time.Time) bool {
	if m.ExpiredAt(now) || m.IsNotice() {
		return false
	}
	urgent := m.Priority == schema.P0 || m.Priority == schema.P1
	return m.Type != schema.Notification || m.ParentID != "" || urgent
}

// AgentOf returns the agent that a session acts for, and whether the workspace has it: the one that the environment names
// if the workspace has it, and otherwise the given one.
func AgentOf(w *mailbox.Workspace, getenv func(string) string, otherwise schema.AgentName) (agent schema.AgentName, known bool) {
	if agent, err := project.AgentFromEnvironment(getenv); err == nil && w.Knows(agent) {
		return agent, true
	}
	return otherwise, otherwise.Valid() && w.Knows(otherwise)
}

func inboxOf(agent schema.AgentName) string { return schema.BoxPath(agent, mailbox.Inbox) }
