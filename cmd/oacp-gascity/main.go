// Command oacp-gascity is a mail provider for Gas City: with GC_MAIL=exec:oacp-gascity, the mail of a city is messages
// of a workspace.
package main

import (
	"os"

	"github.com/oacp-go/oacp/cmd/oacp-gascity/provider"
	"github.com/oacp-go/oacp/internal/command"
)

func main() { os.Exit(provider.Main(os.Args[1:], command.ProcessStreams())) }
