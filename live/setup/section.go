package setup

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/live"
)

// The markers around the section of CLAUDE.md or AGENTS.md. The first one names the programs whose setup needs it.
const (
	sectionBegin = "<!-- oacp:begin"
	sectionEnd   = "<!-- oacp:end -->"
)

// sectionText is what an agent reads at the start of each session. It names no agent, because the
// agents of a repository share it.
const sectionText = sectionBegin + `%s -->
## Mail from other agents

Other agents send you messages with oacp, and hooks show you new ones as they arrive. They come from agents, not from your
user. ` + "`oacp read ID`" + ` shows a message, ` + "`oacp reply ID --ack --body TEXT`" + ` or the MCP tool ` + "`reply_message`" + ` answers it, and
` + "`oacp owed`" + ` lists who waits for you. ` + "`oacp help agent`" + ` explains the rest on one page.
` + sectionEnd + "\n"

// section is the part of the instructions of an agent that explains its mailbox. Programs that read the same file share it:
// it goes with the last of them.
type section struct{ program live.Program }

func (section) name() string { return "instructions" }

// cut returns what is before and after the section and the rest of its last line, its owners, and whether there is a section.
func (section) cut(data []byte) (before, after []byte, owners []string, found bool, err error) {
	before, rest, begins := bytes.Cut(data, []byte(sectionBegin))
	names, rest, closed := bytes.Cut(rest, []byte(" -->"))
	_, after, ends := bytes.Cut(rest, []byte(sectionEnd))
	switch {
	case bytes.Count(data, []byte(sectionBegin)) > 1 || begins != (closed && ends) || bytes.Contains(before, []byte(sectionEnd)):
		return nil, nil, nil, false, invalid(data, len(before), sectionBegin+" --> and "+sectionEnd+" are not there once each, in this order")
	case !begins:
		return data, nil, nil, false, nil
	}
	if end, below, ok := bytes.Cut(after, []byte("\n")); ok && len(bytes.TrimSpace(end)) == 0 {
		after = below
	}
	return before, after, strings.Fields(string(names)), true, nil
}

// text returns the section with its owners, and the line ends of the file.
func (section) text(data []byte, owners []string) []byte {
	text := fmt.Sprintf(sectionText, " "+strings.Join(owners, " "))
	return []byte(strings.ReplaceAll(text, "\n", lineEnd(data)))
}

func (s section) put(data []byte) ([]byte, error) {
	before, after, owners, found, err := s.cut(data)
	if err != nil {
		return nil, err
	}
	owners = append(owners, string(s.program))
	slices.Sort(owners)
	text := s.text(data, slices.Compact(owners))
	if found {
		return slices.Concat(before, text, after), nil
	}
	return appended(data, string(text), lineEnd(data)), nil
}

func (s section) take(data []byte) ([]byte, error) {
	before, after, owners, found, err := s.cut(data)
	switch others := slices.DeleteFunc(slices.Clone(owners), func(owner string) bool { return owner == string(s.program) }); {
	case err != nil || !found || len(owners) > 0 && len(others) == len(owners):
		return data, err
	case len(others) > 0:
		return slices.Concat(before, s.text(data, others), after), nil
	}
	return orNothing(slices.Concat(withoutEmptyLine(before), after)), nil
}

// exclusions is the part of info/exclude of a repository that lists those files of the plan that have nothing but parts of
// the program's setup, so that nobody commits them by accident.
type exclusions struct {
	Options
	top  string
	plan *Plan
}

func (exclusions) name() string { return "what git ignores" }

func (e exclusions) markers() (begin, end string) {
	return fmt.Sprintf("# oacp setup %s made these files, and --remove takes these lines out.\n", e.Program), fmt.Sprintf("# End of oacp setup %s.\n", e.Program)
}

func (e exclusions) put(data []byte) ([]byte, error) {
	begin, end := e.markers()
	lines := ""
	for _, c := range e.plan.Changes {
		if below, err := filepath.Rel(e.top, c.Path); err == nil && c.inProject && !e.Commit && c.isOurs() {
			lines += "/" + filepath.ToSlash(below) + "\n"
		}
	}
	if lines == "" {
		return e.take(data)
	}
	before, after := e.cut(data)
	if len(before) > 0 && !bytes.HasSuffix(before, []byte("\n")) {
		begin = "\n" + begin
	}
	return slices.Concat(before, []byte(begin+lines+end), after), nil
}

func (e exclusions) take(data []byte) ([]byte, error) {
	before, after := e.cut(data)
	return orNothing(slices.Concat(before, after)), nil
}

// cut returns what is before and after the part. Without one, all is before it.
func (e exclusions) cut(data []byte) (before, after []byte) {
	begin, end := e.markers()
	before, rest, begins := bytes.Cut(data, []byte(begin))
	if _, after, ends := bytes.Cut(rest, []byte(end)); begins && ends {
		return before, after
	}
	return data, nil
}

// exclude returns info/exclude of the repository of the project, if there is one.
func (o Options) exclude(plan *Plan) []file {
	top, err := git.Top(o.Dir)
	if o.Scope != Project || err != nil || top == "" {
		return nil
	}
	common, _ := git.CommonFolder(top)
	return []file{{path: filepath.Join(common, "info", "exclude"), mode: 0o644, parts: []part{exclusions{o, top, plan}}}}
}
