package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn"
)

// claimFlags are for an inbox that several machines work.
func claimFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "claim", Category: command.Rare, Usage: "claim each message on the remote, so that one machine works it: `HOW` is git (default with --sync) or none"},
		&cli.StringFlag{Name: "lease", Category: command.Rare, Usage: "others take over a claim that is not renewed for `TIME`", DefaultText: "5m"},
		&cli.IntFlag{Name: "claim-batch", Category: command.Rare, Usage: "claim `N` messages at once", DefaultText: "1, or 20 with --once"},
	}
}

// overrideClaims replaces the settings about claims with the options of the command line.
func overrideClaims(c *cli.Context, settings *turn.Settings) error {
	if c.IsSet("claim") {
		settings.Claim = c.String("claim")
	}
	if c.IsSet("lease") {
		lease, err := schema.ParseDuration(c.String("lease"))
		if err != nil {
			return failure.Usagef("--lease: %w", err)
		}
		settings.Lease = lease
	}
	if c.IsSet("claim-batch") {
		if settings.ClaimBatch = c.Int("claim-batch"); settings.ClaimBatch == 0 { // which a setting leaves to the default
			return failure.Usagef("--claim-batch: 0 is not between 1 and %d", gitmail.MaxBatch)
		}
	}
	if err := settings.CheckClaims(); err != nil {
		return failure.Usagef("--%s", strings.Replace(err.Error(), "_", "-", 1))
	}
	for _, flag := range []string{"lease", "claim-batch"} {
		if c.IsSet(flag) && settings.Claim != turn.ClaimGit && !(settings.Claim == "" && c.IsSet("sync")) {
			return failure.Usagef("--%s requires --claim git", flag)
		}
	}
	return nil
}

// claimsByDefault makes a runner that syncs make claims, unless the settings say otherwise: two machines that
// run one agent without them answer its mail twice.
func claimsByDefault(ctx context.Context, w *mailbox.Workspace, settings *turn.Settings, synced bool) {
	if settings.Claim == turn.ClaimNone {
		settings.Claim = ""
		return
	}
	if settings.Claim != "" || !synced {
		return
	}
	if repository, err := gitmail.Open(ctx, w); err == nil && repository.Settings().URL != "" {
		settings.Claim = turn.ClaimGit
	}
}

// openClaims sets the claims of a configuration if the settings ask for some.
func openClaims(ctx context.Context, s *command.Streams, w *mailbox.Workspace, settings *turn.Settings, config *turn.Config) error {
	if settings.Claim == "" {
		return nil
	}
	repository, err := gitmail.Open(ctx, w)
	if err != nil {
		return err
	}
	options := command.SyncOptions(w)
	if config.Once {
		options.Waiting = s.NoteWaiting
	}
	claims, err := repository.NewClaims(ctx, config.Agent, settings.Lease, options)
	if err != nil {
		return err
	}
	config.Claims = claims
	return nil
}
