package pair

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
)

// Config has AgentPair's global settings (see its config file reference). A setting that the file omits
// has the zero value.
type Config struct {
	Settings
	Verbose bool
	Timeout time.Duration
}

// LoadConfig reads config.yaml from folder. AgentPair's folder is .agentpair in the user's home. Without
// a file, LoadConfig returns the zero Config. Errors name the file and the line.
func LoadConfig(folder string) (Config, error) {
	path := filepath.Join(folder, "config.yaml")
	config, err := readConfig(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("settings %s: %w", path, err)
	}
	return config, nil
}

func readConfig(path string) (config Config, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return config, err
	}
	var settings map[string]yaml.Node
	if err := yaml.Unmarshal(data, &settings); err != nil {
		return config, errors.New(spelling.PlainYAML(err.Error()))
	}
	byLine := func(a, b string) int { return settings[a].Line - settings[b].Line }
	for _, key := range slices.SortedFunc(maps.Keys(settings), byLine) {
		value := settings[key]
		switch {
		case value.Kind != yaml.ScalarNode:
			err = fmt.Errorf("%s: takes a single value", key)
		case value.Tag != "!!null":
			err = config.Set(key, value.Value)
		}
		if err != nil {
			return Config{}, fmt.Errorf("line %d: %w", value.Line, err)
		}
	}
	return config, nil
}

// keys are the settings of the file.
var keys = []string{
	"agent", "done_signal", "max_iterations", "proof", "review_mode", "timeout", "use_tmux", "use_worktree", "verbose",
}

// Set gives the setting with a key of the file a value, and checks it as Create does.
func (c *Config) Set(key, value string) (err error) {
	switch key {
	case "agent":
		c.Agent = Agent(value)
	case "review_mode":
		c.Review = Review(value)
	case "proof":
		c.Proof = value
	case "done_signal":
		c.Done = value
	case "max_iterations":
		if c.MaxIterations, err = strconv.Atoi(value); err != nil || c.MaxIterations < 1 {
			err = fmt.Errorf("%.50q is not a number from 1 to %d", value, maxIterations)
		}
	case "timeout":
		c.Timeout, err = ParseTimeout(value)
	case "use_tmux":
		_, err = parseBool(value) // AgentPair's; a run here has no tmux session
	case "use_worktree":
		c.Worktree, err = parseBool(value)
	case "verbose":
		c.Verbose, err = parseBool(value)
	default:
		advice := "the settings are " + strings.Join(keys, ", ")
		if near := spelling.Nearest(key, keys); near != "" {
			advice = "did you mean " + near + "? " + advice
		}
		return fmt.Errorf("unknown setting %.50q; %s", key, advice)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	settings := c.Settings
	settings.Prompt = "any"
	_, err = settings.complete()
	return err
}

func parseBool(text string) (bool, error) {
	value, err := strconv.ParseBool(text)
	if err != nil {
		err = fmt.Errorf("%.50q is neither true nor false", text)
	}
	return value, err
}

// ParseTimeout parses a duration of more than 0.
func ParseTimeout(text string) (time.Duration, error) {
	d, err := schema.ParseDuration(text)
	if err == nil && d == 0 {
		err = errors.New("must be more than 0")
	}
	return d, err
}
