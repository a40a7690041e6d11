package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/failure"
)

// manualCommand is what a release calls to make the pages for man. Its argument is their folder, which must exist.
const manualCommand = "__manual"

// writeManual writes the page oacp-NAME.1 for each command, and oacp.1 for a program with several.
func (p *Program) writeManual(args []string, s *Streams) error {
	if len(args) != 1 {
		return failure.Usagef("%s wants a folder", manualCommand)
	}
	pages := map[string][]byte{}
	if len(p.Separate) > 0 {
		pages["oacp"] = p.manualOfProgram(s)
	}
	for _, entry := range p.Commands {
		if c := p.find(nil, entry.Name, s); !c.Hidden {
			pages[pageOf(c)] = manualOf(c)
		}
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(args[0], name+".1"), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pageOf returns the name of the page of a command, as git names its pages.
func pageOf(c *cli.Command) string { return strings.ReplaceAll(c.HelpName, " ", "-") }

// manualOfProgram returns the page that lists all commands and topics.
func (p *Program) manualOfProgram(s *Streams) []byte {
	page := newManual("oacp", "messages between coding agents, as files in a shared folder")
	fmt.Fprintf(page, ".SH SYNOPSIS\n.B %[1]s\nCOMMAND [arguments and flags in any order]\n.br\n.B %[1]s help\nCOMMAND|TOPIC [\\-\\-all]\n", "oacp")
	for _, g := range p.helpGroups(s) {
		writeManualEntries(page, "oacp ", g.Name, g.Commands)
	}
	writeManualEntries(page, "oacp help ", "Topics", topics())
	fmt.Fprint(page, ".SH SEE ALSO\nEach command has a page, such as\n.BR oacp\\-send (1).\n")
	return page.Bytes()
}

// manualOf returns the page of a command, with a section for each command below it.
func manualOf(c *cli.Command) []byte {
	page := newManual(pageOf(c), c.Usage)
	writeManualCommand(page, c, "SYNOPSIS", ".SH DESCRIPTION\n", "OPTIONS")
	fmt.Fprint(page, ".SH SEE ALSO\n.BR oacp (1)\n")
	return page.Bytes()
}

func writeManualCommand(w io.Writer, c *cli.Command, heading, beforeText, beforeFlags string) {
	fmt.Fprintf(w, ".SH \"%s\"\n.B %s\n", heading, roff(synopsis(c)))
	if c.Description != "" {
		fmt.Fprint(w, beforeText)
		writeManualText(w, c.Description)
	}
	flags, _, _ := sortFlags(c.Flags, true)
	writeManualEntries(w, "", beforeFlags, flags)
	for _, sub := range c.Subcommands {
		writeManualCommand(w, sub, roff(sub.HelpName+" - "+sub.Usage), "", "")
	}
}

func newManual(name, usage string) *bytes.Buffer {
	page := new(bytes.Buffer)
	fmt.Fprintf(page, ".TH %s 1 \"\" oacp\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), roff(name), roff(usage))
	return page
}

// writeManualEntries writes a section, or only its entries if it has no heading.
func writeManualEntries(w io.Writer, prefix, heading string, entries []candidate) {
	if len(entries) > 0 && heading != "" {
		fmt.Fprintf(w, ".SH \"%s\"\n", heading)
	}
	for _, e := range entries {
		fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(prefix+e.Name), roff(e.Usage))
	}
}

// writeManualText writes the paragraphs of a description. As in help, those with indented lines stay as they are.
func writeManualText(w io.Writer, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		before, after := ".PP\n", "\n"
		if strings.Contains("\n"+paragraph, "\n ") {
			before, after = ".PP\n.nf\n", "\n.fi\n"
		}
		fmt.Fprint(w, before, roff(paragraph), after)
	}
}

// roff escapes what has a meaning for man.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
