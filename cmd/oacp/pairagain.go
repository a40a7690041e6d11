package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/visible"
)

// keptByRun are the flags that say what a run is about, or which one it is: a
// run that is gone on with has them, or takes them in another form.
var keptByRun = []string{
	"prompt", "agent", "review", "max-iterations", "proof", "done", "claude-only", "codex-only", "worktree",
	"run-id", "session", "follow",
}

// flagsToRepeat lists the flags of the command line, as it has them, with
// which its run is to be gone on with.
func flagsToRepeat(c *cli.Context) []string {
	var words []string
	for _, flag := range c.Command.Flags {
		name := flag.Names()[0]
		if !c.IsSet(name) || slices.Contains(keptByRun, name) {
			continue
		}
		if value, isBool := c.Value(name).(bool); isBool && value {
			words = append(words, "--"+name)
		} else if isBool {
			words = append(words, "--"+name+"=false")
		} else {
			words = append(words, "--"+name, fmt.Sprint(c.Value(name)))
		}
	}
	return words
}

// resumption is the command that goes on with a run, for a person to copy.
func (o pairOptions) resumption(run int) string {
	return visible.Shell(append([]string{"oacp", "pair", "--run-id", strconv.Itoa(run)}, o.again...)...)
}
