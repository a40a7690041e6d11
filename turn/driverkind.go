package turn

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/schema"
)

// A DriverKind is a way of reaching an agent.
type DriverKind struct {
	// Name is what settings and command lines call it.
	Name string
	// Summary says in a few words what it reaches.
	Summary string
	// Model says that the model, the permission and the arguments of Settings
	// are for it.
	Model bool

	maker func(*Settings) (driverMaker, error)
}

// A driverMaker makes the agent for a conversation, which continues a session
// unless that is empty.
type driverMaker = func(conversation schema.ConversationID, session string) agent.Driver

// Drivers are all ways of reaching an agent. The first is meant where none is
// named.
func Drivers() []DriverKind {
	return []DriverKind{
		{"exec", "a command for each turn", false, (*Settings).execMaker},
		{"ash", "an Ash bridge", false, (*Settings).ashMaker},
		{"claude", "Claude Code", true, (*Settings).claudeMaker},
		{"codex", "Codex", true, (*Settings).codexMaker},
		{"echo", "no agent at all", false, (*Settings).echoMaker},
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

// Kind returns the way of reaching the agent that the settings name.
func (s *Settings) Kind() (DriverKind, error) {
	kinds := Drivers()
	if s.Driver == "" {
		return kinds[0], nil
	}
	for _, kind := range kinds {
		if kind.Name == s.Driver {
			return kind, nil
		}
	}
	return DriverKind{}, fmt.Errorf("there is no driver %q; there are %s", s.Driver, strings.Join(DriverNames(), ", "))
}

// SetDriver names another driver. What the settings say of the one before
// means nothing to it, and is dropped. A model and arguments without a driver
// that has such are of the one to come.
func (s *Settings) SetDriver(name string) {
	before, err := s.Kind()
	if err != nil || before.Name != name {
		s.Command, s.Socket = nil, ""
		if before.Model {
			s.Model, s.Args = "", nil
		}
	}
	s.Driver = name
}

// NewDriver returns the maker of drivers that the settings describe, for a
// Config.
func (s *Settings) NewDriver() (func(schema.ConversationID, string) agent.Driver, error) {
	kind, err := s.Kind()
	if err != nil {
		return nil, err
	}
	return kind.maker(s)
}

func (s *Settings) execMaker() (driverMaker, error) {
	if len(s.Command) == 0 {
		return nil, errors.New("no command is given for the agent")
	}
	options := agent.ExecOptions{Dir: s.Dir, Env: s.env, Grace: s.Grace}
	return func(schema.ConversationID, string) agent.Driver { return agent.NewExec(s.Command, &options) }, nil
}

func (s *Settings) ashMaker() (driverMaker, error) {
	if len(s.Command) == 0 && s.Socket == "" {
		return nil, errors.New("neither a socket nor a command is given for the Ash bridge")
	}
	greeted := new(atomic.Bool)
	return func(conversation schema.ConversationID, session string) agent.Driver {
		if session == "" {
			session = string(conversation)
		}
		return agent.NewAsh(agent.AshOptions{
			Socket: s.Socket, Command: s.Command, Dir: s.Dir, Env: s.env, Session: session, Greeted: greeted,
		})
	}, nil
}

func (s *Settings) claudeMaker() (driverMaker, error) {
	return func(_ schema.ConversationID, session string) agent.Driver {
		options := &agent.ClaudeOptions{
			Command: s.Command, Dir: s.Dir, Env: s.env, Session: session, Model: s.Model, Args: s.Args, MCP: s.MCP, Grace: s.Grace,
		}
		options.Permit(s.Allow)
		return agent.NewClaude(options)
	}, nil
}

func (s *Settings) codexMaker() (driverMaker, error) {
	return func(_ schema.ConversationID, session string) agent.Driver {
		options := &agent.CodexOptions{
			Command: s.Command, Dir: s.Dir, Env: s.env, Session: session, Model: s.Model, Args: s.Args, MCP: s.MCP, Grace: s.Grace,
		}
		options.Permit(s.Allow)
		return agent.NewCodex(options)
	}, nil
}

func (s *Settings) echoMaker() (driverMaker, error) {
	return func(schema.ConversationID, string) agent.Driver { return agent.NewEcho() }, nil
}
