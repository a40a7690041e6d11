package project

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/schema"
)

// ConfigName is the file in an agent's folder with its settings.
const ConfigName = "config.yaml"

// ConfigPath returns the path of an agent's settings below the workspace.
func ConfigPath(agent schema.AgentName) string {
	return schema.AgentPath(agent, ConfigName)
}

// Autonomy says whether an agent may work on messages before a person has looked at them.
type Autonomy string

// The values of Autonomy.
const (
	// AutonomyAuto lets each message have a turn. The zero value means the same.
	AutonomyAuto Autonomy = "auto"
	// AutonomyReview lets tools of the reference implementation accept the messages that pass their
	// gates. oacp does not know these gates, so to it this is AutonomyPause.
	AutonomyReview Autonomy = "auto_review"
	// AutonomyPause leaves each message to a person.
	AutonomyPause Autonomy = "always_pause"
)

// autonomies are the values that files and flags may have.
var autonomies = []Autonomy{AutonomyAuto, AutonomyReview, AutonomyPause}

// ParseAutonomy returns an error for an unknown value.
func ParseAutonomy(text string) (Autonomy, error) {
	if a := Autonomy(text); slices.Contains(autonomies, a) {
		return a, nil
	}
	names := make([]string, len(autonomies))
	for n, a := range autonomies {
		names[n] = string(a)
	}
	return "", fmt.Errorf("unknown autonomy %q; the values are %s", text, strings.Join(names, ", "))
}

// Holds reports whether messages wait for a person.
func (a Autonomy) Holds() bool { return a != "" && a != AutonomyAuto }

// UnmarshalYAML reads a value. An empty one is the zero value.
func (a *Autonomy) UnmarshalYAML(node *yaml.Node) error {
	var text string
	if err := node.Decode(&text); err != nil {
		return err
	}
	if text == "" {
		*a = ""
		return nil
	}
	parsed, err := ParseAutonomy(text)
	if err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	*a = parsed
	return nil
}
