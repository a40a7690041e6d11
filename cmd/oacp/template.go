package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
)

// printTemplate prints a body to fill in, for a type of message that has one or for a schema of the
// workspace. Types that oacp knows need no workspace.
func printTemplate(name string, o command.Workspace, asJSON bool, s *command.Streams) error {
	return withSchemas(o, s, func(root *os.Root, dir string) error {
		text, err := bodyTemplate(name, root, dir)
		if errors.Is(err, contract.ErrNoTemplate) {
			own, err := contract.Names(root, dir)
			if err != nil {
				return err
			}
			names := contract.TemplateNames(own)
			return failure.Usagef("--template: there is no template for %s", visible.Quote(name)).
				WithHint(spelling.DidYouMean(names, name, "any text is a valid body; there are templates for "+strings.Join(names, ", ")))
		}
		if err != nil {
			return err
		}
		return s.Answer(asJSON, map[string]string{"template": name, "yaml": string(text)}, func() { fmt.Fprintf(s.Out, "%s", text) })
	})
}

// bodyTemplate returns a body to fill in.
func bodyTemplate(name string, root *os.Root, dir string) ([]byte, error) {
	schemas, err := contract.Load(root, dir, func(other string) bool { return other == name })
	if err == nil {
		err = schemas.Err()
	}
	if err != nil {
		return nil, err
	}
	return schemas.Template(name)
}
