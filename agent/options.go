package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/visible"
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
	// Env are variables of the form NAME=value, added to those that the program has anyway.
	Env []string
	// Inherit says which variables of this process programs have.
	Inherit Inherit
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

// Inherit says which variables of this process a program has: all, or with Clean only those without which programs do not
// start; in any case without the tokens of oacp. Add names further ones, or has the form NAME=value.
type Inherit struct {
	Clean bool     `yaml:"clean_env"`
	Add   []string `yaml:"env"`
}

// CheckVariable returns an error if a text is neither the name of a variable nor of the form NAME=value.
func CheckVariable(text string) error {
	if name, _, _ := strings.Cut(text, "="); name == "" || strings.ContainsAny(name, " \t\r\n\x00") {
		return fmt.Errorf("%q is neither the NAME of a variable nor NAME=VALUE", text)
	}
	return nil
}

// basic are the names of variables that a program has in any case. A * stands for the end of a name.
var basic = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_*", "OACP_*",
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "WINDIR", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
}

// passes reports whether a program has a variable of this process.
func (i *Inherit) passes(name string) bool {
	if slices.Contains(i.Add, name) {
		return true
	}
	if strings.HasPrefix(name, "OACP_") && slices.ContainsFunc([]string{"TOKEN", "KEY", "SECRET", "PASSWORD"}, func(end string) bool { return strings.HasSuffix(name, end) }) {
		return false
	}
	return !i.Clean || slices.ContainsFunc(basic, func(pattern string) bool {
		start, isStart := strings.CutSuffix(pattern, "*")
		return strings.EqualFold(pattern, name) || isStart && strings.HasPrefix(name, start)
	})
}

// A Permission says what an agent may do without asking. The user grants it in advance, because
// nobody can answer during a turn.
type Permission string

// The permissions. The zero value means PermitOwn.
const (
	// PermitNothing allows nothing, not even what the agent's own settings permit. Kind.Check refuses it if a driver cannot
	// guarantee that.
	PermitNothing Permission = "none"
	// PermitOwn leaves it to the agent's own settings.
	PermitOwn Permission = "own"
	// PermitEdits allows changes to files in the agent's folder.
	PermitEdits Permission = "edits"
	// PermitAll allows everything, for agents that are confined by other means.
	PermitAll Permission = "all"
)

// ParsePermission returns the permission with the name. The empty name means PermitOwn.
func ParsePermission(name string) (Permission, error) {
	switch permission := Permission(name); permission {
	case "":
		return PermitOwn, nil
	case PermitNothing, PermitOwn, PermitEdits, PermitAll:
		return permission, nil
	}
	return "", fmt.Errorf("there is no permission %q; there are none, own, edits, all", name)
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

// environment returns the variables of a program: those that it inherits, those of the options and those of the lists.
// Later ones win. It makes the values of the lists safe, as they may come from a message.
func (o *Options) environment(lists ...[]string) []string {
	variables := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !o.Inherit.passes(name)
	})
	for _, list := range append([][]string{o.Inherit.Add, o.Env}, lists...) {
		for _, variable := range list {
			name, value, ok := strings.Cut(variable, "=")
			if name = safeText(name); ok && name != "" {
				variables = append(variables, name+"="+visible.CutBytes(safeText(value), maxVariable))
			}
		}
	}
	return variables
}

// lookupVariable returns the value of a variable of the program, "" if it is not set.
func (o *Options) lookupVariable(name string) string {
	for _, variable := range slices.Backward(o.environment()) {
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
