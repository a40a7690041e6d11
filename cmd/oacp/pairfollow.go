package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/pair"
)

// runPairFollow prints one agent's part of a run, until the run stops.
func runPairFollow(ctx context.Context, o pairOptions, s *command.Streams) error {
	root, repository, err := o.log.Runs(s)
	if err != nil {
		return err
	}
	run, err := o.run(root, repository, s)
	if err != nil {
		return err
	}
	o.verbose = true
	printer := &pairPrinter{o: o, s: s}
	for entry, err := range pair.Follow(ctx, run, pair.Agent(o.follow)) {
		if err != nil {
			return err
		}
		if printer.print(entry); printer.err != nil {
			return printer.err
		}
	}
	return nil
}

// showInTmux shows the agents in panes, each of which runs this program.
func (o pairOptions) showInTmux(ctx context.Context, session *pair.Session, s *command.Streams) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	root, _, err := o.log.Runs(s)
	if err != nil {
		return err
	}
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	name, err := session.ShowInTmux(ctx, func(who pair.Agent) []string {
		return []string{program, "pair", "--follow", string(who), "--run-id", strconv.Itoa(session.Place().ID),
			"--repo", session.Manifest().RepoPath, "--runs-dir", root}
	})
	if err != nil || o.json {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "tmux attach -t %s shows the agents\n", name)
	return err
}
