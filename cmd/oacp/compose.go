package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// fill sets the fields of the draft that the command line gives. The body is the text given, or the
// content of a file or of standard input. It stays absent if the user is to write it in an editor.
func (d *delivery) fill() (err error) {
	for flag, name := range fieldFlags {
		if text := d.text(flag); text != "" {
			field, _ := d.draft.TextField(name)
			*field = text
		}
	}
	if text := d.text("type"); text != "" {
		if d.draft.Type, err = parseType(text); err != nil {
			return err
		}
	}
	if text := d.text("priority"); text != "" {
		if d.draft.Priority, err = parsePriority(text); err != nil {
			return err
		}
	}
	if text := d.text("expires"); text != "" {
		if d.draft.ExpiresAt, err = parseExpiry(text, d.Now()); err != nil {
			return err
		}
	}
	if text := d.text("wall-time"); text != "" {
		if d.draft.Telemetry.WallTimeS, err = parseSeconds(text); err != nil {
			return err
		}
	}
	if file := d.text("context-keys-file"); file != "" {
		text, err := readInput(file, d.Streams)
		if errors.Is(err, os.ErrNotExist) {
			return failure.Usagef("--context-keys-file: %w", err)
		}
		if err != nil {
			return fmt.Errorf("context keys: %w", err)
		}
		d.draft.ContextKeys = strings.TrimRight(text, "\r\n")
	}
	if !d.givesBody() {
		if d.prepared != nil {
			return nil // the body is that of the file
		}
		if editor, err := editorOf(d.Streams); err != nil || editor != nil {
			return err // deliver opens the editor
		}
	}
	body, err := d.readBody()
	d.draft.Body = schema.TextValue(body)
	return err
}

// givesBody reports whether a flag gives the body. Without one, it comes from standard input.
func (d *delivery) givesBody() bool { return d.isSet("body") || d.text("body-file") != "" }

func (d *delivery) readBody() (text string, err error) {
	const hint = "use --body TEXT, --body-file FILE, or a pipe"
	file := d.text("body-file")
	empty := file + " is empty"
	switch {
	case file != "" && file != "-":
		text, err = readInput(file, d.Streams)
	case file == "" && d.isSet("body"):
		text, empty = d.text("body"), "--body is empty"
	case d.InTerminal:
		return "", failure.Usagef("body: there is none, and neither VISUAL nor EDITOR names an editor").WithHint(hint)
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

func parseType(text string) (schema.Type, error) {
	t, err := schema.ParseType(strings.ToLower(text))
	if err != nil {
		return "", failure.Usagef("--type: %w", err).WithHint(spelling.DidYouMean(schema.Types(), text, "the types are "+joinNames(schema.Types())))
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
	return time.Time{}, failure.Usagef("--since: %q is not a time: want now, epoch, an age such as 30s, 5m, 2h or 7d, or YYYY-MM-DDTHH:MM:SSZ", text)
}

// scissors is the line that ends what is sent of the text in the editor.
const scissors = "# ------------------------ >8 ------------------------"

// editorOf returns the words of the user's editor command, or none if there is no terminal for it or
// the environment names none.
func editorOf(s *command.Streams) ([]string, error) {
	if !s.InTerminal || !s.ErrTerminal {
		return nil, nil
	}
	words, err := parseCommand(cmp.Or(s.Getenv("VISUAL"), s.Getenv("EDITOR")))
	if err != nil {
		err = failure.Usagef("VISUAL or EDITOR: %w", err)
	}
	return words, err
}

// keptIn names the file that keeps a text that was not sent.
func keptIn(path string) string {
	return "what you wrote is kept in " + path + "; --body-file sends it"
}

// writeBody lets the user write the body of the draft in an editor, and returns the file that holds it.
func (d *delivery) writeBody() (path string, err error) {
	if err := d.checkBeforeEditing(); err != nil {
		return "", err
	}
	start, err := bodyTemplate(string(d.draft.Type), d.w.Root(), d.w.Dir())
	if err != nil && !errors.Is(err, contract.ErrNoTemplate) {
		return "", err
	}
	path, text, err := d.edit(string(start))
	if path == "" {
		return "", err
	}
	if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed == strings.TrimSpace(string(start)) {
		if err == nil {
			err = &failure.Error{Code: "nothing_written", Err: errors.New("no text was written, so nothing is sent")}
		}
		return "", errors.Join(err, os.Remove(path))
	}
	d.draft.Body = schema.TextValue(text)
	if err != nil {
		err = failure.WithHint(err, keptIn(path))
	}
	return path, err
}

// checkBeforeEditing returns what is wrong with a message apart from its body.
func (d *delivery) checkBeforeEditing() error {
	draft, options := d.draft, d.options()
	if err := command.CheckSubject(&draft); err != nil {
		return err
	}
	draft.Body = schema.TextValue("x")
	options.Sign, options.Unsigned = false, true
	_, _, _, err := d.w.Compose(draft, options)
	invalid, ok := errors.AsType[*validate.InvalidError](err)
	if !ok {
		return err
	}
	ofBody := func(d validate.Diagnostic) bool { return d.Field == "body" || strings.HasPrefix(d.Field, "body.") }
	return slices.DeleteFunc(invalid.Diagnostics, ofBody).Err()
}

// editorNotes returns the lines below the scissors: instructions, and a summary of the message.
func (d *delivery) editorNotes() string {
	m := &d.draft
	notes := fmt.Sprintf("# Write the message above this line. Text below it is not sent.\n"+
		"# To cancel, leave nothing above it.\n#\n# A %s from %s to %s: %s\n", m.Type, m.From, joinNames(m.To), m.Subject)
	if d.answered != nil {
		notes += fmt.Sprintf("#\n# It answers what %s wrote:\n\n%s\n", d.answered.From, bodyText(d.answered))
	}
	return notes
}

// edit opens an editor on a file that holds the text and, below the scissors, the notes. It returns
// the path of the file, empty if there is none, and what the user left above the scissors.
func (d *delivery) edit(text string) (path, edited string, err error) {
	words, err := editorOf(d.Streams)
	if err != nil {
		return "", "", err
	}
	file, err := os.CreateTemp("", "oacp-*.md")
	if err != nil {
		return "", "", err
	}
	path = file.Name()
	_, err = file.WriteString(text + "\n" + scissors + "\n" + d.editorNotes())
	if err = errors.Join(err, file.Close()); err != nil {
		return "", "", errors.Join(err, os.Remove(path))
	}
	// A ^C is for the editor, which has the terminal.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	editor := exec.CommandContext(d.ctx, words[0], append(words[1:], path)...)
	editor.Stdin, editor.Stdout, editor.Stderr = d.In, d.Err, d.Err
	if err = editor.Run(); err != nil {
		err = &failure.Error{Code: "editor", Err: fmt.Errorf("the editor %s: %w", words[0], err), Hint: "set VISUAL or EDITOR to an editor"}
	}
	edited, readErr := readInput(path, d.Streams)
	if readErr != nil {
		return "", "", errors.Join(err, readErr)
	}
	if at := strings.Index("\n"+edited, "\n"+scissors); at >= 0 {
		edited, err = edited[:at], errors.Join(err, os.Truncate(path, int64(at))) // the user may want to send the file
	}
	return path, strings.TrimRight(edited, "\r\n") + "\n", err
}
