package pair

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
)

// Config holds AgentPair's global settings (see its config file reference). A setting that the file
// omits has the zero value.
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

// fields maps the keys of the file to the fields of c.
func (c *Config) fields() map[string]any {
	return map[string]any{
		"agent": &c.Agent, "max_iterations": &c.MaxIterations, "proof": &c.Proof, "review_mode": &c.Review,
		"done_signal": &c.Done, "use_tmux": &c.Tmux, "use_worktree": &c.Worktree, "verbose": &c.Verbose,
		"timeout": &c.Timeout,
	}
}

// maxConfig bounds the size of a settings file in bytes.
const maxConfig = 1 << 20

// LoadConfig reads config.yaml, config.yml or config.json, whichever it finds first, from folder.
// AgentPair's folder is .agentpair in the user's home. LoadConfig returns the zero Config if there is
// no file. Errors name the file and the line.
func LoadConfig(folder string) (Config, error) {
	for _, name := range []string{"config.yaml", "config.yml", "config.json"} {
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
	data, err := readBounded(path, maxConfig)
	if err != nil {
		return config, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return config, nil
	case err != nil:
		return config, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(&second); err == nil {
		return config, fmt.Errorf("line %d: unexpected second document", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return config, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	settings := document.Content[0]
	if settings.Kind != yaml.MappingNode && !isNull(settings) {
		return config, fmt.Errorf("line %d: settings must be lines of the form KEY: VALUE", settings.Line)
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(settings.Content); i += 2 {
		key, value := settings.Content[i], settings.Content[i+1]
		if first, repeated := lines[key.Value]; repeated {
			return Config{}, fmt.Errorf("line %d: %s is already set in line %d", key.Line, key.Value, first)
		}
		lines[key.Value] = key.Line
		if err := config.set(key.Value, value); err != nil {
			return Config{}, fmt.Errorf("line %d: %w", key.Line, err)
		}
	}
	return config, nil
}

// set sets one field and checks the result as Create does.
func (c *Config) set(name string, value *yaml.Node) error {
	fields := c.fields()
	field, known := fields[name]
	if !known {
		names := slices.Sorted(maps.Keys(fields))
		advice := "the settings are " + strings.Join(names, ", ")
		if near := spelling.Nearest(name, names); near != "" {
			advice = "did you mean " + near + "? " + advice
		}
		return fmt.Errorf("unknown setting %.50q; %s", name, advice)
	}
	if isNull(value) {
		return nil
	}
	err := value.Decode(field)
	switch field := field.(type) {
	case *time.Duration:
		*field, err = schema.ParseDuration(value.Value)
		if err == nil && *field == 0 {
			err = errors.New("must be more than 0")
		}
	case *int:
		if err != nil || *field < 1 {
			err = fmt.Errorf("%.50q is not a number from 1 to %d", value.Value, maxIterations)
		}
	case *bool:
		if err != nil {
			err = fmt.Errorf("%.50q is neither true nor false", value.Value)
		}
	default:
		if err != nil {
			err = errors.New("takes a single value")
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	settings := Settings{Prompt: "any", Agent: c.Agent, Review: c.Review, MaxIterations: c.MaxIterations, Proof: c.Proof, Done: c.Done}
	_, err = settings.complete()
	return err
}

// isNull reports whether a key has no value.
func isNull(value *yaml.Node) bool { return value.Kind == yaml.ScalarNode && value.Tag == "!!null" }

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // only read
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return data, err
}
