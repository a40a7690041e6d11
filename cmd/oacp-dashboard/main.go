// Command oacp-dashboard is "oacp dashboard": it shows agents, runs and messages in a terminal.
package main

import (
	"github.com/oacp-go/oacp/cmd/oacp-dashboard/dashboard"
	"github.com/oacp-go/oacp/internal/command"
)

func main() { command.MainOf("dashboard", dashboard.NewCommand) }
