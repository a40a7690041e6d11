package pair

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gopkg.in/yaml.v3"
)

// Config is AgentPair's file of global settings (its config file reference).
// What it does not say is the zero value.
type Config struct {
	Agent         Agent    `yaml:"agent"`
	MaxIterations int      `yaml:"max_iterations"`
	Proof         string   `yaml:"proof"`
	Review        Review   `yaml:"review_mode"`
	Done          string   `yaml:"done_signal"`
	Tmux          bool     `yaml:"use_tmux"`
	Worktree      bool     `yaml:"use_worktree"`
	Verbose       bool     `yaml:"verbose"`
	Timeout       Duration `yaml:"timeout"`
}

// Duration is a time as Go writes it, such as 1h30m.
type Duration time.Duration

// UnmarshalYAML reads a duration, which must not be negative.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	value, err := time.ParseDuration(node.Value)
	if err == nil && value < 0 {
		err = errors.New("it is negative")
	}
	if err != nil {
		return fmt.Errorf("line %d: %q is no duration: %w", node.Line, node.Value, err)
	}
	*d = Duration(value)
	return nil
}

// configNames are the files that are looked for; the first there is counts.
var configNames = []string{"config.yaml", "config.yml", "config.json"}

// maxConfig bounds a file of settings in bytes.
const maxConfig = 1 << 20

// LoadConfig reads the settings in a folder, which is .agentpair in the user's
// home. No file is no error; an unknown key or a wrong value is, and is named
// with the file and the line.
func LoadConfig(folder string) (Config, error) {
	for _, name := range configNames {
		path := filepath.Join(folder, name)
		config, err := readConfig(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Config{}, fmt.Errorf("settings %s: %w", path, err)
		}
		return config, nil
	}
	return Config{}, nil
}

func readConfig(path string) (config Config, err error) {
	file, err := os.Open(path)
	if err != nil {
		return config, err
	}
	defer file.Close() // it is only read
	data, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	if err != nil {
		return config, err
	}
	if len(data) > maxConfig {
		return config, fmt.Errorf("they are larger than %d bytes", maxConfig)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&config); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, err
	}
	return config, config.check()
}

// check looks at what is said, as Create will.
func (c Config) check() error {
	settings := Settings{Prompt: "any", Agent: c.Agent, Review: c.Review, MaxIterations: c.MaxIterations, Proof: c.Proof, Done: c.Done}
	_, err := settings.complete()
	return err
}
