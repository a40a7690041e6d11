package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/turn"
)

// driverOptions say how an agent is reached.
type driverOptions struct {
	name    string
	socket  string
	command []string
}

// flags returns the flags; socket says what the command does with --socket.
func (o *driverOptions) flags(socket string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "driver", Usage: "reach the agent by `DRIVER`: " + driverSummary(), Destination: &o.name},
		&cli.StringFlag{Name: "socket", Usage: socket, Destination: &o.socket},
	}
}

// driverSummary says what drivers there are.
func driverSummary() string {
	var words []string
	for _, kind := range turn.Drivers() {
		words = append(words, kind.Name+" ("+kind.Summary+")")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func (o *driverOptions) checkName() error {
	drivers := turn.DriverNames()
	if o.name == "" || slices.Contains(drivers, o.name) {
		return nil
	}
	return usageErrorf("there is no driver %s", quote(o.name)).
		withHint(didYouMean(drivers, o.name, "there are "+strings.Join(drivers, ", ")))
}

// override puts what the command line says in the place of what the
// workspace says. What the workspace says of one driver means nothing to
// another.
func (o *driverOptions) override(settings *turn.Settings) error {
	if err := o.checkName(); err != nil {
		return err
	}
	name := o.name
	switch {
	case name != "":
	case o.socket != "":
		name = "ash"
	case len(o.command) > 0:
		name = "exec"
	default:
		return nil
	}
	if o.socket != "" && name != "ash" {
		return usageErrorf("--socket is for an Ash bridge, and the driver is %s", name)
	}
	if len(o.command) > 0 && name == "echo" {
		return usageErrorf("an echo needs no command, and there is one behind --")
	}
	if before := settings.Driver; before != name && (before != "" || name != turn.DriverNames()[0]) {
		settings.Command, settings.Socket = nil, ""
	}
	settings.Driver = name
	if o.socket != "" {
		settings.Socket = o.socket
	}
	if len(o.command) > 0 {
		settings.Command = o.command
	}
	return nil
}
