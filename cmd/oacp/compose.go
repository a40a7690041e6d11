package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// composeOptions are the flags of send and reply for the parts of a message.
type composeOptions struct {
	// given holds the fields whose flags are their text.
	given schema.Message
	// prepared is the file that holds the rest of the message, if there is one.
	prepared *validate.Draft

	from, agent, typ, body string
	// bodyGiven distinguishes an empty --body from a missing one, which reads standard input.
	bodyGiven                             bool
	bodyFile, priority, expires, wallTime string
	contextKeysFile                       string
}

func (o *composeOptions) flags() []cli.Flag {
	given := &o.given
	return []cli.Flag{
		&cli.StringFlag{Name: "subject", Aliases: []string{"s"}, Usage: "the subject is `TEXT`, at most 200 characters", Destination: &given.Subject},
		&cli.StringFlag{Name: "body", Aliases: []string{"b"}, Usage: "the body is `TEXT`", Destination: &o.body},
		&cli.StringFlag{Name: "body-file", Usage: "read the body from `FILE`, - for standard input", Destination: &o.bodyFile},
		&cli.StringFlag{Name: "from", Usage: "the sender is `AGENT` (default: $OACP_AGENT)", Destination: &o.from},
		&cli.StringFlag{Name: "priority", Usage: "`PRIORITY` is P0 (urgent), P1, P2 (normal) or P3 (low)", Destination: &o.priority},
		&cli.StringFlag{Name: "expires", Category: command.Rare, Usage: "expire after `TIME`, such as 90s, 30m or 7d, or at YYYY-MM-DDTHH:MM:SSZ", Destination: &o.expires},
		&cli.StringFlag{Name: "channel", Category: command.Rare, Usage: "the channel is `NAME`, a label of your choice", Destination: &given.Channel},
		&cli.StringFlag{Name: "related-pr", Category: command.Rare, Usage: "the message is about pull request `NUMBER`", Destination: &given.RelatedPR},
		&cli.StringFlag{Name: "related-packet", Category: command.Rare, Usage: "the message is about the packet `NAME`", Destination: &given.RelatedPacket},
		&cli.StringFlag{Name: "context-keys", Category: command.Rare, Usage: "add `TEXT` as context for the recipient", Destination: &given.ContextKeys},
		&cli.StringFlag{Name: "context-keys-file", Category: command.Rare, Usage: "read the context from `FILE`", Destination: &o.contextKeysFile},
		&cli.StringFlag{Name: "autonomy-hint", Category: command.Rare, Usage: "`HINT` is auto_proceed: the recipient may proceed without asking", Destination: &given.AutonomyHint},
		&cli.StringFlag{Name: "model", Category: command.Rare, Usage: "in a review message: the model `NAME` did the work", Destination: &given.Telemetry.Model},
		&cli.StringFlag{Name: "turns", Category: command.Rare, Usage: "the work took `COUNT` turns", Destination: &given.Telemetry.Turns},
		&cli.StringFlag{Name: "input-tokens", Category: command.Rare, Usage: "the model read `COUNT` tokens", Destination: &given.Telemetry.InputTokens},
		&cli.StringFlag{Name: "output-tokens", Category: command.Rare, Usage: "the model wrote `COUNT` tokens", Destination: &given.Telemetry.OutputTokens},
		&cli.StringFlag{Name: "wall-time", Category: command.Rare, Usage: "the work took `TIME`: 90s, 5m, or seconds", Destination: &o.wallTime},
		&cli.StringFlag{Name: "cost", Category: command.Rare, Usage: "the work cost `DOLLARS`, such as 0.18", Destination: &given.Telemetry.EstCostUSD},
		&cli.StringFlag{Name: "agent", Hidden: true, Destination: &o.agent},
	}
}

// check notes which flags are given. A type or priority that is given must not be empty; an empty
// text is an invalid message.
func (o *composeOptions) check(c *cli.Context) error {
	if c.IsSet("agent") {
		return failure.Usagef("there is no flag --agent").WithHint("--from AGENT names the sender, --to AGENT the recipient")
	}
	o.bodyGiven = c.IsSet("body")
	for _, name := range []string{"type", "priority"} {
		if c.IsSet(name) && c.String(name) == "" {
			return failure.Usagef("--%s is empty", name)
		}
	}
	return nil
}

// fill sets the fields of the draft that the command line gives. The body is the text given, or the
// content of a file or of standard input. It stays absent if the user is to write it in an editor.
func (o *composeOptions) fill(draft *schema.Message, s *command.Streams) (err error) {
	if err := o.parse(s); err != nil {
		return err
	}
	for _, name := range schema.FieldNames() {
		if text, _ := o.given.TextField(name); text != nil && *text != "" {
			field, _ := draft.TextField(name)
			*field = *text
		}
	}
	if !o.bodyGiven && o.bodyFile == "" {
		if o.prepared != nil {
			return nil // the body is that of the file
		}
		if editor, err := editorOf(s); err != nil || editor != nil {
			return err // deliver opens the editor
		}
	}
	body, err := o.readBody(s)
	draft.Body = schema.TextValue(body)
	return err
}

// readsFile reports whether a flag names a file to send.
func (o *composeOptions) readsFile() bool {
	return o.bodyFile != "" && o.bodyFile != "-" || o.contextKeysFile != "" && o.contextKeysFile != "-"
}

// sender returns the agent that --from or a prepared message names, or else the one that the
// environment names.
func sender(w *mailbox.Workspace, from string, s *command.Streams) (schema.AgentName, error) {
	agent, err := command.ActingAgent(w, from, s)
	if errors.Is(err, project.ErrNoSender) {
		err = failure.WithHint(err, "use --from AGENT, or set OACP_AGENT")
	}
	return agent, err
}

// parse sets those given fields whose flags are not their text.
func (o *composeOptions) parse(s *command.Streams) (err error) {
	if o.typ != "" {
		if o.given.Type, err = parseType(o.typ); err != nil {
			return err
		}
	}
	if o.priority != "" {
		if o.given.Priority, err = parsePriority(o.priority); err != nil {
			return err
		}
	}
	if o.expires != "" {
		if o.given.ExpiresAt, err = parseExpiry(o.expires, s.Now()); err != nil {
			return err
		}
	}
	if o.wallTime != "" {
		if o.given.Telemetry.WallTimeS, err = parseSeconds(o.wallTime); err != nil {
			return err
		}
	}
	if o.contextKeysFile != "" {
		text, err := readInput(o.contextKeysFile, s)
		if errors.Is(err, os.ErrNotExist) {
			return failure.Usagef("--context-keys-file: %w", err)
		}
		if err != nil {
			return fmt.Errorf("context keys: %w", err)
		}
		o.given.ContextKeys = strings.TrimRight(text, "\r\n")
	}
	return nil
}

func (o *composeOptions) readBody(s *command.Streams) (text string, err error) {
	const hint = "use --body TEXT, --body-file FILE, or a pipe"
	empty := o.bodyFile + " is empty"
	switch {
	case o.bodyFile != "" && o.bodyFile != "-":
		text, err = readInput(o.bodyFile, s)
	case o.bodyFile == "" && o.bodyGiven:
		text, empty = o.body, "--body is empty"
	case s.InTerminal:
		return "", failure.Usagef("body: there is none, and neither VISUAL nor EDITOR names an editor").WithHint(hint)
	default:
		empty = "nothing came in on standard input"
		text, err = readInput("-", s)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", failure.Usagef("body: %w", err).WithHint(hint)
	case err != nil:
		return "", fmt.Errorf("body: %w", err)
	case strings.TrimSpace(text) == "":
		return "", &failure.Error{Code: "invalid_message", Err: errors.New("body: " + empty), Hint: hint}
	}
	return text, nil
}

// source returns where the body comes from.
func (o *composeOptions) source() validate.Source {
	switch {
	case o.prepared != nil && !o.bodyGiven && o.bodyFile == "":
		return validate.Source{Draft: o.prepared}
	case o.bodyFile == "-":
		return validate.Source{}
	}
	return validate.Source{BodyFile: o.bodyFile}
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
		return "", failure.WithHint(fmt.Errorf("reading %s: %w", name, err), "name a file, or - for standard input")
	}
	if len(data) > schema.MaxFileSize {
		return "", fmt.Errorf("%s is larger than a message may be (%d bytes)", name, schema.MaxFileSize)
	}
	return string(data), nil
}

func typeList() string { return joinNames(schema.Types()) }

func parseType(text string) (schema.Type, error) {
	t, err := schema.ParseType(strings.ToLower(text))
	if err != nil {
		return "", failure.Usagef("--type: %w", err).WithHint(spelling.DidYouMean(schema.Types(), text, "the types are "+typeList()))
	}
	return t, nil
}

func parsePriority(text string) (schema.Priority, error) {
	if p := schema.Priority(strings.ToUpper(text)); p.Known() {
		return p, nil
	}
	_, err := schema.ParsePriority(text)
	return "", failure.Usagef("--priority: %w", err).WithHint(validate.SuggestPriority(text))
}

// parseSeconds returns a time as wall_time_s has it: a number of seconds, or a duration such as 5m.
func parseSeconds(text string) (string, error) {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text, nil
	}
	d, err := schema.ParseDuration(text)
	if err != nil {
		return "", failure.Usagef("--wall-time: %w", err).WithHint("write 90s, 5m, 1h30m, or a number of seconds")
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64), nil
}

// parseExpiry parses a duration from now, such as 30m, 2h or 7d, or a timestamp.
func parseExpiry(text string, now time.Time) (schema.Timestamp, error) {
	if _, err := schema.ParseTimestamp(schema.Timestamp(text)); err == nil {
		return schema.Timestamp(text), nil
	}
	if d, err := schema.ParseDuration(text); err == nil && d >= time.Second {
		return schema.NewTimestamp(now.Add(d)), nil
	}
	return "", failure.Usagef("--expires: %s is not a time", visible.Quote(text)).WithHint("write 90s, 30m, 2h or 7d, or YYYY-MM-DDTHH:MM:SSZ")
}

// sinceLayouts are the forms of ISO 8601 that parseSince accepts. Fractions may follow the seconds.
var sinceLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700",
	"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly,
}

// parseSince parses the value of --since: now, epoch, an age such as 5m or 7d, or a time, in UTC
// unless it names a zone.
func parseSince(text string, now time.Time) (time.Time, error) {
	trimmed := strings.ToUpper(strings.TrimSpace(text))
	switch trimmed {
	case "NOW":
		return now, nil
	case "EPOCH":
		return time.Unix(0, 0).UTC(), nil
	}
	for _, layout := range sinceLayouts {
		// A space may separate date and time.
		if at, err := time.Parse(layout, strings.Replace(trimmed, " ", "T", 1)); err == nil {
			return at.UTC(), nil
		}
	}
	if age, err := schema.ParseDuration(trimmed); err == nil && trimmed != "0" {
		return now.Add(-age), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: want now, epoch, an age such as 30s, 5m, 2h or 7d, or YYYY-MM-DDTHH:MM:SSZ", text)
}
