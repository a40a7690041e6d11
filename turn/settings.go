package turn

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/settings"
	"github.com/oacp-go/oacp/schema"
)

// Settings are what a workspace says about the turns of an agent. They are in the section run of
// workspace.json, for all agents, and of agents/<name>/config.yaml, for one agent; the second wins.
type Settings struct {
	// Driver is the name of one of the agent.Kinds; empty means the first.
	Driver string `yaml:"driver"`
	// Command is a program and its arguments: for exec the agent, for ash the bridge, and for
	// claude and codex the program if it is not the one of that name.
	Command []string `yaml:"command"`
	// Model is what claude, codex and acp use; empty leaves it to them.
	Model string `yaml:"model"`
	// Allow is what claude, codex and acp may do without asking.
	Allow agent.Permission `yaml:"allow"`
	// Args are further arguments for claude, codex and acp.
	Args []string `yaml:"args"`
	// Inherit says which variables programs have: the settings clean_env and env.
	Inherit agent.Inherit `yaml:",inline"`
	// Socket is the path of the bridge for ash.
	Socket string `yaml:"socket"`
	// Dir is the command's working folder, relative to the workspace.
	Dir   string `yaml:"dir"`
	Input Input  `yaml:"input"`
	Reply bool   `yaml:"reply"`
	// Autonomy is the setting autonomy or, without it, default_mode of the section autonomy of the file.
	Autonomy     project.Autonomy   `yaml:"autonomy"`
	AllowFrom    []schema.AgentName `yaml:"allow_from"`
	MaxAttempts  int                `yaml:"max_attempts"`
	MaxTurns     int                `yaml:"max_turns"`
	MaxPairTurns int                `yaml:"max_pair_turns"`
	MaxHops      int                `yaml:"max_hops"`
	Steer        bool               `yaml:"steer"`
	Parallel     int                `yaml:"parallel"`
	// Claim is how machines that work the same inbox agree on who handles a message: ClaimGit, or ClaimNone
	// if there is one machine. Lease is how long a claim holds that is not renewed.
	Claim string        `yaml:"claim"`
	Lease time.Duration `yaml:"lease"`
	// Notify is a program and its arguments that tell a person about new mail; see package notify. It is not in the
	// section run.
	Notify []string `yaml:"-"`
	// NotifyFile is the path of the file that sets Notify.
	NotifyFile string `yaml:"-"`
	// Timeout and Grace are durations such as 30m.
	Timeout time.Duration `yaml:"timeout"`
	Grace   time.Duration `yaml:"grace"`

	// Unsigned reports that the section run of workspace.json does not count, because the settings of the agent are signed.
	Unsigned bool `yaml:"-"`
	// refused are the settings of files that the user has not allowed, by the names of settings.Keys.
	refused map[string]refusal
	// MCP are the servers whose tools claude, codex and acp get. Files cannot set them.
	MCP map[string]agent.MCPServer `yaml:"-"`
	// place names the workspace and the agent for programs that outlive a turn.
	place []string
}

// A refusal is a setting that does not count, and the file that has it.
type refusal struct {
	settings.Setting
	file string
}

// The values of Settings.Claim: with ClaimGit, several machines may work the inbox and make claims in git; with
// ClaimNone, only one machine works it. Without the setting, a Runner that syncs makes claims.
const (
	ClaimGit  = "git"
	ClaimNone = "none"
)

// LoadSettings reads the settings of an agent that count. Without any, it returns the zero value. Errors name
// the file and the setting.
func LoadSettings(w *mailbox.Workspace, name schema.AgentName) (s Settings, err error) {
	files, err := settings.Read(w, name)
	if err != nil {
		return Settings{}, err
	}
	s.refused = make(map[string]refusal)
	for _, f := range files {
		path := f.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(w.Dir(), path)
		}
		if err := s.load(&f, path); err != nil {
			return Settings{}, fmt.Errorf("settings for turns in %s: %w", path, err)
		}
	}
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		s.Dir = filepath.Join(w.Dir(), s.Dir)
	}
	s.place = []string{"OACP_WORKSPACE=" + w.Dir(), "OACP_AGENT=" + string(name)}
	return s, nil
}

// load adds the settings of a file.
func (s *Settings) load(f *settings.File, path string) error {
	s.Unsigned = s.Unsigned || f.Unsigned
	for _, refused := range f.Refused {
		s.refused[refused.Name] = refusal{refused, f.Path}
	}
	var autonomy struct {
		Mode project.Autonomy `yaml:"default_mode"`
	}
	if f.Autonomy != nil {
		if err := f.Autonomy.Decode(&autonomy); err != nil {
			return err
		}
		s.Autonomy = cmp.Or(autonomy.Mode, s.Autonomy)
	}
	if f.Notify != nil {
		if err := f.Notify.Decode(&s.Notify); err != nil {
			return err
		}
		s.NotifyFile = path
		delete(s.refused, "notify")
	}
	if f.Run == nil {
		return nil
	}
	var named struct {
		Driver *string `yaml:"driver"`
	}
	if err := f.Run.Decode(&named); err != nil {
		return err
	}
	if named.Driver != nil {
		if _, err := agent.FindKind(*named.Driver); err != nil {
			return err
		}
		s.SetDriver(*named.Driver)
	}
	for i := 0; i < len(f.Run.Content); i += 2 {
		s.Override(f.Run.Content[i].Value)
	}
	err := errors.Join(f.Run.Decode(s), s.CheckClaims())
	for _, variable := range s.Inherit.Add {
		err = errors.Join(err, agent.CheckVariable(variable))
	}
	return err
}

// Override records that the caller decides about settings of the section run, so files that the user has not allowed to
// set them do not matter.
func (s *Settings) Override(names ...string) {
	for _, name := range names {
		delete(s.refused, "run."+name)
	}
}

// CheckNotify returns a *settings.NotAllowedError if there is a command for new mail that the user has not allowed.
func (s *Settings) CheckNotify() error { return s.checkAllowed("notify") }

// checkAllowed returns a *settings.NotAllowedError if files have one of the settings and the user has not allowed it.
func (s *Settings) checkAllowed(names ...string) error {
	var refused settings.File
	for _, name := range names {
		if r, ok := s.refused[name]; ok {
			refused.Path, refused.Refused = r.file, append(refused.Refused, r.Setting)
		}
	}
	if refused.Refused == nil {
		return nil
	}
	return settings.NewNotAllowedError(refused)
}

// checkDriver is checkAllowed for the settings that the driver uses.
func (s *Settings) checkDriver(kind agent.Kind) error {
	names := []string{"run.driver"}
	if driver, ok := s.refused["run.driver"]; ok {
		kind, _ = agent.FindKind(driver.Text())
	}
	if kind.Command {
		names = append(names, "run.command", "run.dir", "run.env")
	}
	if kind.Socket {
		names = append(names, "run.socket", "run.model")
	}
	if kind.Model {
		names = append(names, "run.model", "run.allow", "run.args")
	}
	return s.checkAllowed(names...)
}

// CheckClaims returns an error if a setting about claims has a value that is not possible.
func (s *Settings) CheckClaims() error {
	switch {
	case s.Claim != "" && s.Claim != ClaimGit && s.Claim != ClaimNone:
		return fmt.Errorf("claim: %q is not %s or %s", s.Claim, ClaimGit, ClaimNone)
	case s.Lease != 0 && (s.Lease < gitmail.MinLease || s.Lease > gitmail.MaxLease):
		return fmt.Errorf("lease: %v is not between %v and %v", s.Lease, gitmail.MinLease, gitmail.MaxLease)
	}
	return nil
}

// Config returns the configuration that the settings describe. An echo reads the body unless the
// settings say otherwise.
func (s *Settings) Config(name schema.AgentName) (Config, error) {
	newDriver, err := s.NewDriver()
	if err != nil {
		return Config{}, err
	}
	kind, err := agent.FindKind(s.Driver)
	if err != nil {
		return Config{}, err
	}
	input := s.Input
	if input == "" && s.Driver == "echo" {
		input = InputBody
	}
	return Config{
		Agent: name, NewDriver: newDriver, Input: input, ForModel: kind.Model, Reply: s.Reply, Autonomy: s.Autonomy, AllowFrom: s.AllowFrom,
		MaxAttempts: s.MaxAttempts, MaxTurns: s.MaxTurns, MaxPairTurns: s.MaxPairTurns, MaxHops: s.MaxHops,
		Timeout: s.Timeout, Parallel: s.Parallel, Steer: s.Steer,
	}, nil
}

// SetDriver selects another driver. It drops the settings that belong to the driver before: command and socket,
// and the model and arguments if that driver uses them.
func (s *Settings) SetDriver(name string) {
	before, err := agent.FindKind(cmp.Or(s.refused["run.driver"].Text(), s.Driver))
	if err != nil || before.Name != name {
		s.Command, s.Socket = nil, ""
		s.Override("command", "socket")
		if before.Model {
			s.Model, s.Args = "", nil
			s.Override("model", "args")
		}
	}
	s.Driver = name
	s.Override("driver")
}

// Agent returns the kind and the options of the drivers that the settings describe. The error is a
// *settings.NotAllowedError if files have settings for the driver that the user has not allowed.
func (s *Settings) Agent() (kind agent.Kind, options agent.Options, err error) {
	if kind, err = agent.FindKind(s.Driver); err != nil {
		return kind, options, err
	}
	options = agent.Options{
		Command: s.Command, Socket: s.Socket, Dir: s.Dir, Env: s.place, Grace: s.Grace,
		Model: s.Model, Args: s.Args, MCP: s.MCP,
		Inherit: s.Inherit,
	}
	if kind.Model {
		options.Allow = s.Allow
	}
	return kind, options, cmp.Or(s.checkDriver(kind), kind.Check(options))
}

// NewDriver returns the constructor of drivers that the settings describe, for a Config. Its errors are those of Agent.
func (s *Settings) NewDriver() (func(schema.ConversationID, string) agent.Driver, error) {
	kind, options, err := s.Agent()
	if err != nil {
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
