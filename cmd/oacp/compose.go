package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// composeOptions are the parts of a new message that send and reply share.
type composeOptions struct {
	from    string
	subject string
	body    string
	// bodyGiven distinguishes an empty --body from a missing one, which reads standard input.
	bodyGiven       bool
	bodyFile        string
	priority        string
	expires         string
	channel         string
	relatedPR       string
	relatedPacket   string
	contextKeys     string
	contextKeysFile string
	autonomyHint    string
	suffix          string
}

func (o *composeOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "from", Usage: "the sender is `AGENT` (default: see oacp help)", Destination: &o.from},
		&cli.StringFlag{Name: "subject", Aliases: []string{"s"}, Usage: "`TEXT` of at most 200 characters", Destination: &o.subject},
		&cli.StringFlag{Name: "body", Aliases: []string{"b"}, Usage: "the message is `TEXT`", Destination: &o.body},
		&cli.StringFlag{Name: "body-file", Usage: "the message is in `FILE`, - for standard input", Destination: &o.bodyFile},
		&cli.StringFlag{Name: "priority", Usage: "`PRIORITY`: P0 (now), P1, P2 (usual) or P3", Destination: &o.priority},
		&cli.StringFlag{Name: "expires", Usage: "expires after `TIME`: 30m, 2h, 7d, or at YYYY-MM-DDTHH:MM:SSZ", Destination: &o.expires},
		&cli.StringFlag{Name: "channel", Usage: "a label, `NAME`", Destination: &o.channel},
		&cli.StringFlag{Name: "related-pr", Usage: "the pull request it is about, `NUMBER`", Destination: &o.relatedPR},
		&cli.StringFlag{Name: "related-packet", Usage: "the packet it is about, `NAME`", Destination: &o.relatedPacket},
		&cli.StringFlag{Name: "context-keys", Usage: "`TEXT` the recipient should know", Destination: &o.contextKeys},
		&cli.StringFlag{Name: "context-keys-file", Usage: "the same from `FILE`", Destination: &o.contextKeysFile},
		&cli.StringFlag{Name: "autonomy-hint", Usage: "`HINT`: auto_proceed", Destination: &o.autonomyHint},
		&cli.StringFlag{Name: "suffix", Usage: "accepted for compatibility; file names are unique without it", Destination: &o.suffix, Hidden: true},
	}
}

// fill sets the fields of the draft that the command line gives. The body is the text given, or the
// content of a file or of standard input.
func (o *composeOptions) fill(draft *schema.Message, s *command.Streams) error {
	for _, field := range []struct {
		to   *string
		text string
	}{
		{&draft.Subject, o.subject},
		{&draft.Channel, o.channel},
		{&draft.RelatedPR, o.relatedPR},
		{&draft.RelatedPacket, o.relatedPacket},
		{&draft.ContextKeys, o.contextKeys},
		{&draft.AutonomyHint, o.autonomyHint},
	} {
		if field.text != "" {
			*field.to = field.text
		}
	}
	if o.priority != "" {
		priority, err := schema.ParsePriority(strings.ToUpper(o.priority))
		if err != nil {
			return failure.Usagef("--priority: %w", err)
		}
		draft.Priority = priority
	}
	if o.expires != "" {
		expires, err := parseExpiry(o.expires, s.Now())
		if err != nil {
			return err
		}
		draft.ExpiresAt = expires
	}
	if o.contextKeysFile != "" {
		text, err := readInput(o.contextKeysFile, s)
		if err != nil {
			return fmt.Errorf("context keys: %w", err)
		}
		draft.ContextKeys = strings.TrimRight(text, "\r\n")
	}
	body, err := o.readBody(s)
	draft.Body = schema.TextValue(body)
	return err
}

func (o *composeOptions) readBody(s *command.Streams) (string, error) {
	noBody := func(why string) error {
		return failure.Usagef("body: %s", why).WithHint("use --body TEXT, --body-file FILE, or a pipe")
	}
	source := o.bodyFile
	switch {
	case source != "":
	case o.bodyGiven && strings.TrimSpace(o.body) == "":
		return "", noBody("--body is empty")
	case o.bodyGiven:
		return o.body, nil
	case s.InTerminal:
		return "", noBody("there is none")
	default:
		source = "-"
	}
	text, err := readInput(source, s)
	if errors.Is(err, os.ErrNotExist) {
		return "", noBody(err.Error())
	}
	if err != nil {
		return "", fmt.Errorf("body: %w", err)
	}
	if strings.TrimSpace(text) == "" {
		if source == "-" {
			return "", noBody("nothing came in on standard input")
		}
		return "", noBody(source + " is empty")
	}
	return text, nil
}

// readInput returns the text of a file, or of standard input for "-". It stops at the size of the
// largest message.
func readInput(name string, s *command.Streams) (text string, err error) {
	input := s.In
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close() // nothing was written, so the error does not matter
		input = file
	}
	data, err := io.ReadAll(io.LimitReader(input, schema.MaxFileSize+1))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	if len(data) > schema.MaxFileSize {
		return "", fmt.Errorf("%s is larger than a message may be (%d bytes)", name, schema.MaxFileSize)
	}
	return string(data), nil
}

// parseExpiry parses a duration from now, such as 30m, 2h or 7d, or a timestamp.
func parseExpiry(text string, now time.Time) (schema.Timestamp, error) {
	if _, err := schema.ParseTimestamp(schema.Timestamp(text)); err == nil {
		return schema.Timestamp(text), nil
	}
	if d, err := schema.ParseDuration(text); err == nil && d >= time.Second {
		return schema.NewTimestamp(now.Add(d)), nil
	}
	return "", failure.Usagef("--expires: %s is not a time", visible.Quote(text)).WithHint("write 30m, 2h or 7d, or YYYY-MM-DDTHH:MM:SSZ")
}

// answer makes the draft an answer to a message, and warns if that message is missing.
func answer(ctx context.Context, w *mailbox.Workspace, draft *schema.Message, id string, s *command.Streams) error {
	found, err := w.AnswerTo(ctx, draft, id)
	if err == nil && !found {
		s.Warn("there is no message " + id + " any more; the answer names it as its parent anyway")
	}
	return err
}
