package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// exitNotVerified is the status of verify for a signature that is not good.
const exitNotVerified = 3

// A verifyCall is a call of verify.
type verifyCall struct {
	*call
	receiver schema.AgentName
	require  bool
	pins     string
}

func newVerifyCommand(s *command.Streams) *cli.Command {
	c := &verifyCall{call: newCall(s)}
	return &cli.Command{
		Name:      "verify",
		Category:  command.CategorySigning,
		Usage:     "verify a signature",
		ArgsUsage: "FILE [--receiver AGENT]",
		Description: `verify uses the keys that the receiver has pinned. For a file in a mailbox, the receiver
is the agent of the mailbox. The result is one of

   unsigned            the file has no signature                        status 0
   signed-verified     a pinned key of its sender signed these bytes    status 0
   signed-unknown-kid  no pinned key signed it                          status 3
   signed-INVALID      the bytes, signature or sender were changed      status 3
   signed-REVOKED      the key that signed it was revoked               status 3

If the file cannot be read, the status is 2. With --require, only signed-verified is 0.

EXAMPLES:
   oacp verify agents/codex/inbox/FILE
   oacp verify message.yaml --receiver codex --project my-project --json`,
		Flags: c.flagsWith(
			&cli.StringFlag{Name: "receiver", Usage: "use the pins of `AGENT`", Destination: (*string)(&c.receiver)},
			&cli.BoolFlag{Name: "require", Usage: "exit with status 3 if the file is not signed", Destination: &c.require},
			&cli.StringFlag{Name: "pins", Category: command.Rare, Usage: "use the pins in `FILE`", Destination: &c.pins}),
		Action: c.action(1, c.run),
	}
}

func (c *verifyCall) run() error {
	file, err := c.only(failure.Usagef("needs a FILE"))
	if err != nil {
		return err
	}
	data, err := readRegular(file)
	if err != nil {
		return failure.Usagef("%w", err)
	}
	source, pins, pinsErr, err := c.findPins(file)
	if err != nil {
		return err
	}
	result := trust.Verify(data, pins, pinsErr)
	report := trust.NewReport(result, source, c.Now())
	if err := c.answer(report, func() { c.Printf("%s\n", visible.Line(annotation(report))) }); err != nil {
		return err
	}
	if result.Status == signing.Unsigned && !c.require || result.Status == signing.Verified {
		return nil
	}
	return &failure.StatusError{Status: exitNotVerified}
}

// findPins returns the pins to verify the file with and their path. The error pinsErr says why they cannot
// be used, which is a result of the verification.
func (c *verifyCall) findPins(file string) (source string, pins []trust.Entry, pinsErr, err error) {
	if source = c.pins; source != "" {
		data, err := readRegular(source)
		if err != nil {
			return source, nil, err, nil
		}
		pins, err = trust.ParsePins(source, data)
		return source, pins, err, nil
	}
	place, receiver := c.place, c.receiver
	if receiver == "" {
		if place.Dir, receiver = mailboxOf(file); receiver == "" {
			return "", nil, nil, nil // there is no receiver, so no pins
		}
	}
	err = place.With(c.Streams, nil, func(w *mailbox.Workspace) error {
		if err := w.CheckAgent(receiver); err != nil {
			return err
		}
		source = filepath.Join(w.Dir(), filepath.FromSlash(trust.PinsName(receiver)))
		pins, pinsErr = trust.Pins(w, receiver)
		return nil
	})
	return source, pins, pinsErr, err
}

// mailboxOf returns the workspace and the agent of a file in a mailbox. It returns none for an outbox, whose
// agent is the sender, not a receiver.
func mailboxOf(file string) (workspace string, agent schema.AgentName) {
	full, err := filepath.Abs(file)
	if err != nil {
		return "", ""
	}
	at, ok := schema.Locate(filepath.ToSlash(full))
	if !ok || at.Box == schema.Outbox {
		return "", ""
	}
	return filepath.FromSlash(at.Workspace), at.Agent
}

// readRegular returns the bytes of a regular file, and one more than a message may have if it is larger.
func readRegular(path string) ([]byte, error) {
	file, err := durable.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() // nothing was written
	return io.ReadAll(io.LimitReader(file, schema.MaxFileSize+1))
}

// labels are the names of the statuses in the reference implementation.
var labels = map[signing.Status]string{
	signing.Unsigned: "unsigned", signing.Verified: "signed-verified", signing.Untrusted: "signed-unknown-kid",
	signing.Invalid: "signed-INVALID", signing.Revoked: "signed-REVOKED",
}

// annotation returns the line that the reference implementation prints.
func annotation(r trust.Report) string {
	line := "[oacp-auth] " + labels[r.Status]
	if r.Signer != "" {
		line += " signer=" + string(r.Signer)
	}
	if r.KeyID != "" {
		line += fmt.Sprintf(" kid=%.12s…", r.KeyID)
	}
	if r.Reason != "" {
		line += " reason: " + failure.OneLine(string(r.Reason))
	}
	return line
}
