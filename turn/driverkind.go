package turn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/schema"
)

// A DriverKind is a way of reaching an agent.
type DriverKind struct {
	// Name is what settings and command lines call it.
	Name string
	// Summary says in a few words what it reaches.
	Summary string

	maker func(*Settings) (driverMaker, error)
}

// A driverMaker makes the agent for a conversation, which continues a session
// unless that is empty.
type driverMaker = func(conversation schema.ConversationID, session string) agent.Driver

// Drivers are all ways of reaching an agent. The first is meant where none is
// named.
func Drivers() []DriverKind {
	return []DriverKind{
		{"exec", "a command for each turn", (*Settings).execMaker},
		{"ash", "an Ash bridge", (*Settings).ashMaker},
		{"claude", "Claude Code", (*Settings).claudeMaker},
		{"codex", "Codex", (*Settings).codexMaker},
		{"echo", "no agent at all", (*Settings).echoMaker},
	}
}

// DriverNames are the names of all Drivers.
func DriverNames() []string {
	var names []string
	for _, kind := range Drivers() {
		names = append(names, kind.Name)
	}
	return names
}

// NewDriver returns the maker of drivers that the settings describe, for a
// Config.
func (s *Settings) NewDriver() (func(schema.ConversationID, string) agent.Driver, error) {
	kinds := Drivers()
	if s.Driver == "" {
		return kinds[0].maker(s)
	}
	for _, kind := range kinds {
		if kind.Name == s.Driver {
			return kind.maker(s)
		}
	}
	return nil, fmt.Errorf("there is no driver %q; there are %s", s.Driver, strings.Join(DriverNames(), ", "))
}

func (s *Settings) execMaker() (driverMaker, error) {
	if len(s.Command) == 0 {
		return nil, errors.New("no command is given for the agent")
	}
	options := agent.ExecOptions{Dir: s.Dir, Grace: s.Grace}
	return func(schema.ConversationID, string) agent.Driver { return agent.NewExec(s.Command, &options) }, nil
}

func (s *Settings) ashMaker() (driverMaker, error) {
	if len(s.Command) == 0 && s.Socket == "" {
		return nil, errors.New("neither a socket nor a command is given for the Ash bridge")
	}
	return func(conversation schema.ConversationID, session string) agent.Driver {
		if session == "" {
			session = string(conversation)
		}
		return agent.NewAsh(agent.AshOptions{Socket: s.Socket, Command: s.Command, Dir: s.Dir, Session: session})
	}, nil
}

func (s *Settings) claudeMaker() (driverMaker, error) {
	return func(_ schema.ConversationID, session string) agent.Driver {
		return agent.NewClaude(&agent.ClaudeOptions{Command: s.Command, Dir: s.Dir, Session: session, Model: s.Model, Grace: s.Grace})
	}, nil
}

func (s *Settings) codexMaker() (driverMaker, error) {
	return func(_ schema.ConversationID, session string) agent.Driver {
		return agent.NewCodex(&agent.CodexOptions{Command: s.Command, Dir: s.Dir, Session: session, Model: s.Model, Grace: s.Grace})
	}, nil
}

func (s *Settings) echoMaker() (driverMaker, error) {
	return func(schema.ConversationID, string) agent.Driver { return agent.NewEcho() }, nil
}
