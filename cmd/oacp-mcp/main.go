// Command oacp-mcp is "oacp mcp": it offers an agent its mailbox and a bridge log as tools of the
// Model Context Protocol.
package main

import (
	"github.com/oacp-go/oacp/cmd/oacp-mcp/mcpserver"
	"github.com/oacp-go/oacp/internal/command"
)

func main() { command.MainOf("mcp", mcpserver.NewCommand) }
