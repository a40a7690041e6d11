package agent

import (
	"fmt"
	"slices"
	"strings"
)

// A Permission says what an agent may do without asking. It is given beforehand, because nobody is
// there to be asked.
type Permission string

// The permissions. The zero value is PermitNothing.
const (
	// PermitNothing permits what the agent's own settings do.
	PermitNothing Permission = "none"
	// PermitEdits permits to change files in the agent's folder.
	PermitEdits Permission = "edits"
	// PermitAll permits everything, for agents that are shut in by other means.
	PermitAll Permission = "all"
)

// Permissions are all permissions, the smallest first.
func Permissions() []Permission { return []Permission{PermitNothing, PermitEdits, PermitAll} }

// ParsePermission returns the permission of that name. None is PermitNothing.
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
