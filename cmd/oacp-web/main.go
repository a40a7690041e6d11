// Command oacp-web is "oacp web": it shows a workspace in a browser, and lets a person answer there.
package main

import (
	"github.com/oacp-go/oacp/cmd/oacp-web/web"
	"github.com/oacp-go/oacp/internal/command"
)

func main() { command.MainOf("web", web.NewCommand) }
