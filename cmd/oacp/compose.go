package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// fill sets the fields of the draft that the command line gives, and the body.
func (d *delivery) fill() (err error) {
	for _, name := range schema.FieldNames() {
		if text, _ := d.fields.TextField(name); text != nil && *text != "" {
			field, _ := d.draft.TextField(name)
			*field = *text
		}
	}
	if file := d.contextKeysFile; file != "" {
		text, err := readInput(file, d.Streams)
		if errors.Is(err, os.ErrNotExist) {
			return failure.Usagef("--context-keys-file: %w", err)
		}
		if err != nil {
			return fmt.Errorf("context keys: %w", err)
		}
		d.draft.ContextKeys = strings.TrimRight(text, "\r\n")
	}
	d.draft.Marks.AllowSecret = d.draft.Marks.AllowSecret || d.allowSecret
	if d.given(&d.choices) {
		choices, err := schema.ParseChoices(d.choices)
		if err == nil {
			err = d.draft.Offer(choices)
		}
		if err != nil {
			return fmt.Errorf("--choices: %w", err)
		}
	}
	if d.given(&d.decline) {
		d.draft.Body = schema.TextValue(d.decline)
		return nil
	}
	if d.given(&d.choose) && !d.givesBody() {
		return nil // the choice is the body
	}
	if !d.givesBody() && d.prepared != nil {
		return nil // the body is that of the file
	}
	body, err := d.readBody()
	d.draft.Body = schema.TextValue(body)
	return err
}

// givesBody reports whether a flag gives the body. Without one, it comes from standard input.
func (d *delivery) givesBody() bool { return d.given(&d.body) || d.bodyFile != "" }

func (d *delivery) readBody() (text string, err error) {
	const hint = "use --body TEXT, --body-file FILE, or a pipe"
	file := d.bodyFile
	empty := file + " is empty"
	switch {
	case file != "" && file != "-":
		text, err = readInput(file, d.Streams)
	case file == "" && d.given(&d.body):
		text, empty = d.body, "--body is empty"
	case file == "" && d.InTerminal:
		return "", failure.Usagef("body: there is none").WithHint(hint)
	default:
		empty = "nothing came in on standard input"
		text, err = readInput("-", d.Streams)
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

// parseExpiry parses a duration from now, such as 30m, 2h or 7d, or a timestamp.
func (d *delivery) parseExpiry(text string) (schema.Timestamp, error) {
	if _, err := schema.ParseTimestamp(schema.Timestamp(text)); err == nil {
		return schema.Timestamp(text), nil
	}
	if left, err := schema.ParseDuration(text); err == nil && left >= time.Second {
		return schema.NewTimestamp(d.Now().Add(left)), nil
	}
	return "", failure.Usagef("%s is not a time", visible.Quote(text)).WithHint("write 90s, 30m, 2h or 7d, or YYYY-MM-DDTHH:MM:SSZ")
}

// parseTime parses the value of a flag.
func (c *call) parseTime(text string) (time.Time, error) { return parseTime(text, c.Now()) }

// timeLayouts are the forms of ISO 8601 that parseTime accepts. The seconds may have fractions.
var timeLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700",
	"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly,
}

// parseTime parses the value of a flag such as --since: now, epoch, an age such as 5m or 7d, or a time, in UTC
// unless it names a zone.
func parseTime(text string, now time.Time) (time.Time, error) {
	trimmed := strings.ToUpper(strings.TrimSpace(text))
	switch trimmed {
	case "NOW":
		return now, nil
	case "EPOCH":
		return time.Unix(0, 0).UTC(), nil
	}
	for _, layout := range timeLayouts {
		// A space may separate date and time.
		if at, err := time.Parse(layout, strings.Replace(trimmed, " ", "T", 1)); err == nil {
			return at.UTC(), nil
		}
	}
	if age, err := schema.ParseDuration(trimmed); err == nil && trimmed != "0" {
		return now.Add(-age), nil
	}
	return time.Time{}, failure.Usagef("%q is not a time: want now, epoch, an age such as 30s, 5m, 2h or 7d, or YYYY-MM-DDTHH:MM:SSZ", text)
}
