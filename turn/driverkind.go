package turn

import (
	"sync/atomic"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/schema"
)

// SetDriver names another driver. Settings of the driver before mean nothing to it, so SetDriver
// drops them. A model and arguments without a driver that uses such are kept for the new one.
func (s *Settings) SetDriver(name string) {
	before, err := agent.FindKind(s.Driver)
	if err != nil || before.Name != name {
		s.Command, s.Socket = nil, ""
		if before.Model {
			s.Model, s.Args = "", nil
		}
	}
	s.Driver = name
}

// NewDriver returns the constructor of drivers that the settings describe, for a Config.
func (s *Settings) NewDriver() (func(schema.ConversationID, string) agent.Driver, error) {
	kind, err := agent.FindKind(s.Driver)
	if err != nil {
		return nil, err
	}
	options := agent.Options{
		Command: s.Command, Socket: s.Socket, Dir: s.Dir, Env: s.env, Grace: s.Grace,
		Model: s.Model, Allow: s.Allow, Args: s.Args, MCP: s.MCP, Greeted: new(atomic.Bool),
	}
	if err := kind.Check(options); err != nil {
		return nil, err
	}
	return func(conversation schema.ConversationID, session string) agent.Driver {
		options := options
		options.Session = session
		if session == "" && kind.NamesSessions {
			options.Session = string(conversation)
		}
		return kind.New(options)
	}, nil
}
