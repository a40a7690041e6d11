package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

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

// keptIn says where a text is that was not sent.
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
