package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Options describe an agent to its driver. Each kind of driver uses some of them; see Kind. The
// zero value of an option is its default.
type Options struct {
	// Command is a program and its arguments: for exec the agent itself; for ash the bridge, which
	// the driver then starts and stops, and which finds the path of its socket in ASH_BRIDGE_SOCKET;
	// for claude, codex and acp the program, with arguments that precede all others. A relative path is
	// relative to Dir.
	Command []string
	// Socket is the path of an Ash bridge's socket. With a Command it may be empty: the driver then
	// chooses a new path.
	Socket string
	// Dir is the working folder of programs. Empty means that of this process.
	Dir string
	// Env are variables of the form NAME=value, added to those of this process.
	Env []string
	// Session is the id of the session to continue. Empty starts a new one. An Ash bridge needs a
	// name for each session; without one, the driver makes one up.
	Session string
	// Model names the model. Empty leaves the choice to the program.
	Model string
	// Allow is what the agent may do without asking.
	Allow Permission
	// MayRun are shell commands that the agent may run without asking, each exactly as it is. Only
	// claude, codex and acp use them.
	MayRun []string
	// MCP are the MCP servers that the program starts, by name, besides those of its own
	// configuration. Their tools are approved without asking.
	MCP map[string]MCPServer
	// Args are further arguments of the program.
	Args []string
	// Grace is how long a program may take to end after SIGTERM before it gets SIGKILL. Zero means
	// five seconds.
	Grace time.Duration
}

// A Permission says what an agent may do without asking. The user grants it in advance, because
// nobody can answer during a turn.
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

// ParsePermission returns the permission with the name. The empty name means PermitNothing.
func ParsePermission(name string) (Permission, error) {
	switch permission := Permission(name); permission {
	case "":
		return PermitNothing, nil
	case PermitNothing, PermitEdits, PermitAll:
		return permission, nil
	}
	return "", fmt.Errorf("there is no permission %q; there are none, edits, all", name)
}

// UnmarshalText reads a permission from a file.
func (p *Permission) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePermission(string(text))
	return err
}

// MCPServer is a Model Context Protocol server that an agent starts for itself and talks to over
// standard input and output. The agent may use its tools without asking. The server's name consists
// of letters, digits, - and single underscores.
type MCPServer struct {
	// Command is the server as a program and its arguments. Other users can see it in the list of
	// processes.
	Command []string
}

// maxVariable bounds the value of a variable, in bytes. Systems do not start a program with very
// large ones, and a message must not be able to cause that.
const maxVariable = 8 << 10

// environment returns the variables of this process and of the lists. Later ones win. It makes the
// values of the lists safe, as they may come from a message.
func environment(lists ...[]string) []string {
	variables := os.Environ()
	for _, list := range lists {
		for _, variable := range list {
			name, value, ok := strings.Cut(variable, "=")
			if name = safeText(name); ok && name != "" {
				variables = append(variables, name+"="+cutText(safeText(value), maxVariable))
			}
		}
	}
	return variables
}

// lookupVariable returns the value of a variable of a program started with the list, "" if it is
// not set.
func lookupVariable(list []string, name string) string {
	variables := environment(list)
	for _, variable := range slices.Backward(variables) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// safeText drops NUL bytes, which no system can pass to a program, and replaces invalid UTF-8.
func safeText(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
}

// cutText returns the beginning of the text, at most limit bytes of it, cut between characters.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
