package main

import (
	"slices"
	"strings"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
)

// printTemplate prints a body to fill in, made from the workspace's schema for a type, or for a
// channel if the name is channel- and the channel.
func printTemplate(name string, o command.Workspace, s *command.Streams) error {
	return o.With(s, nil, func(w *mailbox.Workspace) error {
		names, err := contract.Names(w.Root(), w.Dir())
		if err != nil {
			return err
		}
		if !slices.Contains(names, name) {
			hint := "schemas/" + visible.Line(name) + contract.Suffix + " would be one"
			if len(names) > 0 {
				hint = spelling.DidYouMean(names, name, "the workspace has schemas for "+strings.Join(names, ", "))
			}
			return failure.Usagef("--template: the workspace has no schema for %s", visible.Quote(name)).WithHint(hint)
		}
		schemas, err := contract.Load(w.Root(), w.Dir(), func(other string) bool { return other == name })
		if err == nil {
			err = schemas.Err()
		}
		if err != nil {
			return err
		}
		text, err := schemas.Template(name)
		if err == nil {
			_, err = s.Out.Write(text)
		}
		return err
	})
}
