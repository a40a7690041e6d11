package pair

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/spelling"
)

// Config is AgentPair's file of global settings (its config file reference).
// What it does not say is the zero value.
type Config struct {
	Agent         Agent
	MaxIterations int
	Proof         string
	Review        Review
	Done          string
	Tmux          bool
	Worktree      bool
	Verbose       bool
	Timeout       time.Duration
}

// configKeys are the keys of the file, and how each is read.
var configKeys = []struct {
	name string
	take func(c *Config, text string) error
}{
	{"agent", func(c *Config, text string) error { c.Agent = Agent(text); return nil }},
	{"max_iterations", func(c *Config, text string) (err error) {
		if c.MaxIterations, err = strconv.Atoi(text); err != nil || c.MaxIterations < 1 {
			return fmt.Errorf("%.50q is no number from 1 on", text)
		}
		return nil
	}},
	{"proof", func(c *Config, text string) error { c.Proof = text; return nil }},
	{"review_mode", func(c *Config, text string) error { c.Review = Review(text); return nil }},
	{"done_signal", func(c *Config, text string) error { c.Done = text; return nil }},
	{"use_tmux", func(c *Config, text string) error { return takeBool(&c.Tmux, text) }},
	{"use_worktree", func(c *Config, text string) error { return takeBool(&c.Worktree, text) }},
	{"verbose", func(c *Config, text string) error { return takeBool(&c.Verbose, text) }},
	{"timeout", func(c *Config, text string) (err error) {
		if c.Timeout, err = time.ParseDuration(text); err != nil || c.Timeout <= 0 {
			return fmt.Errorf("%.50q is no time such as 90m or 1h30m", text)
		}
		return nil
	}},
}

func takeBool(value *bool, text string) error {
	switch text {
	case "true", "false":
		*value = text == "true"
		return nil
	}
	return fmt.Errorf("%.50q is neither true nor false", text)
}

// knownKeys lists the keys of the file.
func knownKeys() []string {
	var names []string
	for _, key := range configKeys {
		names = append(names, key.name)
	}
	return names
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
	return parseConfig(data)
}

// parseConfig reads settings. Errors name the line.
func parseConfig(data []byte) (config Config, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, another yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return config, nil
	case err != nil:
		return config, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(&another); err == nil {
		return config, fmt.Errorf("line %d: a second document begins, and one is all there may be", another.Line)
	} else if !errors.Is(err, io.EOF) {
		return config, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	settings := document.Content[0]
	if isNull(settings) {
		return config, nil
	}
	if settings.Kind != yaml.MappingNode {
		return config, fmt.Errorf("line %d: settings are lines of the form KEY: VALUE", settings.Line)
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(settings.Content); i += 2 {
		key, value := settings.Content[i], settings.Content[i+1]
		if first, again := seen[key.Value]; again {
			return Config{}, fmt.Errorf("line %d: %s was set in line %d", key.Line, key.Value, first)
		}
		seen[key.Value] = key.Line
		if err := config.take(key.Value, value); err != nil {
			return Config{}, fmt.Errorf("line %d: %w", key.Line, err)
		}
	}
	return config, nil
}

// take takes the value of a key.
func (c *Config) take(name string, value *yaml.Node) error {
	for _, key := range configKeys {
		switch {
		case key.name != name:
			continue
		case isNull(value):
			return nil
		case value.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s: it takes one value", name)
		}
		if err := key.take(c, value.Value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return c.check()
	}
	advice := "there are " + strings.Join(knownKeys(), ", ")
	if near := spelling.Nearest(name, knownKeys()); near != "" {
		advice = "did you mean " + near + "? There are " + strings.Join(knownKeys(), ", ")
	}
	return fmt.Errorf("there is no setting %.50q; %s", name, advice)
}

// isNull reports whether a key was left without a value.
func isNull(value *yaml.Node) bool { return value.Kind == yaml.ScalarNode && value.Tag == "!!null" }

// check looks at what is said, as Create will.
func (c Config) check() error {
	settings := Settings{Prompt: "any", Agent: c.Agent, Review: c.Review, MaxIterations: c.MaxIterations, Proof: c.Proof, Done: c.Done}
	_, err := settings.complete()
	return err
}
