package agent

import (
	"fmt"
	"slices"
	"strings"
)

// A Permission says what an agent may do without asking. It is given beforehand, because nobody is
// there to ask.
type Permission string

// The permissions. The zero value is PermitNothing.
const (
	// PermitNothing leaves it to the agent's own settings.
	PermitNothing Permission = "none"
	// PermitEdits allows changes to files in the agent's folder.
	PermitEdits Permission = "edits"
	// PermitAll allows everything, for agents that are confined by other means.
	PermitAll Permission = "all"
)

// Permissions returns all permissions, the smallest first.
func Permissions() []Permission { return []Permission{PermitNothing, PermitEdits, PermitAll} }

// ParsePermission returns the permission of that name. The empty name stands for PermitNothing.
func ParsePermission(name string) (Permission, error) {
	if name == "" {
		return PermitNothing, nil
	}
	if !slices.Contains(Permissions(), Permission(name)) {
		return "", fmt.Errorf("there is no permission %q; there are %s", name, joinPermissions())
	}
	return Permission(name), nil
}

func joinPermissions() string {
	var names []string
	for _, p := range Permissions() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// UnmarshalText reads a permission from a file.
func (p *Permission) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePermission(string(text))
	return err
}
