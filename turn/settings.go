package turn

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
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
	// Timeout and Grace are durations such as 30m.
	Timeout time.Duration `yaml:"timeout"`
	Grace   time.Duration `yaml:"grace"`

	// MCP are the servers whose tools claude, codex and acp get. Files cannot set them.
	MCP map[string]agent.MCPServer `yaml:"-"`
	// env names the workspace and the agent for programs that outlive a turn.
	env []string
}

// settingNames are the names of the settings in a file.
var settingNames = []string{
	"driver", "command", "model", "allow", "args", "socket", "dir", "input", "reply", "autonomy", "allow_from",
	"max_attempts", "max_turns", "max_pair_turns", "max_hops", "steer", "parallel", "claim", "lease", "timeout", "grace",
}

// The values of Settings.Claim: with ClaimGit, several machines may work the inbox and make claims in git; with
// ClaimNone, only one machine works it. Without the setting, a Runner that syncs makes claims.
const (
	ClaimGit  = "git"
	ClaimNone = "none"
)

// maxSettings is the largest file that settings are read from, in bytes.
const maxSettings = 1 << 20

// LoadSettings reads the settings of an agent. Without any, it returns the zero value. Errors name
// the file and the setting.
func LoadSettings(w *mailbox.Workspace, name schema.AgentName) (Settings, error) {
	if err := w.CheckAgent(name); err != nil {
		return Settings{}, err
	}
	var s Settings
	data, err := durable.ReadFile(w.Root(), w.Dir(), schema.MarkerName, maxSettings)
	if err == nil {
		err = s.load(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Settings{}, fmt.Errorf("settings for turns in %s: %w", filepath.Join(w.Dir(), schema.MarkerName), err)
	}
	s.Notify = nil // it is a setting of one person
	if data, err = trust.ReadConfig(w, name); err == nil {
		err = s.load(data)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("settings for turns in %s: %w", filepath.Join(w.Dir(), project.ConfigPath(name)), err)
	}
	if s.Dir != "" && !filepath.IsAbs(s.Dir) {
		s.Dir = filepath.Join(w.Dir(), s.Dir)
	}
	s.env = []string{"OACP_WORKSPACE=" + w.Dir(), "OACP_AGENT=" + string(name)}
	return s, nil
}

// If the content of a file has another shape, the error of yaml names these types.
type (
	settingsFile struct {
		Run      yaml.Node       `yaml:"run"`
		Autonomy autonomySection `yaml:"autonomy"`
		Notify   yaml.Node       `yaml:"notify"`
		// Other are the remaining fields at the top.
		Other map[string]yaml.Node `yaml:",inline"`
	}
	autonomySection struct {
		DefaultMode project.Autonomy `yaml:"default_mode"`
	}
)

// load adds the settings of a file. It also accepts JSON, which is YAML.
func (s *Settings) load(data []byte) error {
	var file settingsFile
	if err := yaml.Unmarshal(data, &file); err != nil {
		return err
	}
	for _, name := range settingNames {
		if at, misplaced := file.Other[name]; misplaced {
			return fmt.Errorf("line %d: %s has no effect at the top of the file: it belongs in the section run, as run: {%[2]s: %s}", at.Line, name, cmp.Or(at.Value, "..."))
		}
	}
	if mode := file.Autonomy.DefaultMode; mode != "" {
		s.Autonomy = mode
	}
	if !file.Notify.IsZero() && file.Notify.Tag != "!!null" {
		if err := file.Notify.Decode(&s.Notify); err != nil || len(s.Notify) == 0 || s.Notify[0] == "" {
			return fmt.Errorf("line %d: notify is a list of words, a program and its arguments, such as [notify-send, \"New mail\"]", file.Notify.Line)
		}
	}
	if file.Run.IsZero() || file.Run.Tag == "!!null" {
		return nil
	}
	if file.Run.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: run is not a mapping", file.Run.Line)
	}
	for i := 0; i < len(file.Run.Content); i += 2 {
		setting, value := file.Run.Content[i], file.Run.Content[i+1]
		if !slices.Contains(settingNames, setting.Value) {
			return fmt.Errorf("line %d: run has no setting %q; it has %s", setting.Line, setting.Value, strings.Join(settingNames, ", "))
		}
		if setting.Value == "command" && value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
			return fmt.Errorf("line %d: command is a list of words, such as [sh, -c, %q]", value.Line, value.Value)
		}
	}
	var named struct {
		Driver *string `yaml:"driver"`
	}
	if err := file.Run.Decode(&named); err != nil {
		return err
	}
	if named.Driver != nil {
		if _, err := agent.FindKind(*named.Driver); err != nil {
			return err
		}
		s.SetDriver(*named.Driver)
	}
	return errors.Join(file.Run.Decode(s), s.CheckClaims())
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
	input := s.Input
	if input == "" && s.Driver == "echo" {
		input = InputBody
	}
	return Config{
		Agent: name, NewDriver: newDriver, Input: input, Reply: s.Reply, Autonomy: s.Autonomy, AllowFrom: s.AllowFrom,
		MaxAttempts: s.MaxAttempts, MaxTurns: s.MaxTurns, MaxPairTurns: s.MaxPairTurns, MaxHops: s.MaxHops,
		Timeout: s.Timeout, Parallel: s.Parallel, Steer: s.Steer,
	}, nil
}

// SetDriver selects another driver. It drops the settings that belong to the driver before: command and socket,
// and the model and arguments if that driver uses them.
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
		Model: s.Model, Allow: s.Allow, Args: s.Args, MCP: s.MCP,
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
