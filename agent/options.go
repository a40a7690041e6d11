package agent

import (
	"sync/atomic"
	"time"
)

// Options describe an agent to its driver. Each kind of driver uses some of them; see Kind. The
// zero value of an option is its default.
type Options struct {
	// Command is a program and its arguments: for exec the agent itself; for ash the bridge, which
	// the driver then starts and stops and which learns the path of its socket from
	// ASH_BRIDGE_SOCKET; for claude and codex the program, with arguments that precede all others.
	// The driver looks for a program given as a relative path in Dir.
	Command []string
	// Socket is the path of an Ash bridge's socket. With a Command it may be empty: the driver then
	// chooses a new path.
	Socket string
	// Dir is the working folder of programs. Empty means that of this process.
	Dir string
	// Env are variables of the form NAME=value, added to those of this process.
	Env []string
	// Session continues a session by its id. Empty starts a new one. An Ash bridge demands a name
	// for each session; if it is empty, the driver makes one up.
	Session string
	// Model names the model. Empty leaves the choice to the program.
	Model string
	// Allow is what the agent may do without asking.
	Allow Permission
	// MCP are the MCP servers that the program starts, by name, besides those of its own
	// configuration. Their tools are approved without asking.
	MCP map[string]MCPServer
	// Args are further arguments of the program.
	Args []string
	// Grace is how long a program may take to end after SIGTERM before it gets SIGKILL. Zero means
	// five seconds.
	Grace time.Duration
	// Greeted reports that the bridge at Socket has said ready to some connection. A bridge may say
	// it only once, so drivers that share it then take silence for ready after a short time. They
	// set it. It may be nil.
	Greeted *atomic.Bool
}
