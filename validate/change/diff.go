package change

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
)

// An entry is a message file that the change adds, edits or removes.
type entry struct {
	// path and workspace are the paths of the file and its workspace below the top of the repository. That of the
	// workspace is empty or has a slash at its end.
	path, workspace string
	agent           schema.AgentName
	box             schema.Box
	// status is a letter of git: A, D, M, T (another type of file), or U (not merged).
	status byte
	// oldMode and before are the mode and the object id before the change, mode and id those after it.
	oldMode, mode, before, id string
}

// The modes of git.
const (
	noMode      = "000000"
	programMode = "100755"
	linkMode    = "120000"
)

func isFile(mode string) bool { return mode == git.Regular || mode == programMode }

// isEdit reports whether the change edits a message that the base has.
func (e *entry) isEdit() bool { return (e.status == 'M' || e.status == 'T') && e.before != e.id }

// unusual says what is wrong with a new file that is not an ordinary file, or returns "".
func (e *entry) unusual() string {
	switch {
	case isFile(e.mode) || e.mode == noMode:
		return ""
	case e.mode == linkMode:
		return "it is a symbolic link"
	}
	return "it is a repository of its own (a submodule)"
}

// moves are the contents that the change removes from a mailbox and that it adds to one. A message that moves from
// the inbox to the archive is not new. The outbox counts as a mailbox of its own.
type moves struct{ removed, added map[content]bool }

type content struct {
	workspace string
	agent     schema.AgentName
	outbox    bool
	id        string
}

// content returns what the change adds or, with the status D, removes.
func (e *entry) content() content {
	id := e.id
	if e.status == 'D' {
		id = e.before
	}
	return content{e.workspace, e.agent, e.box == schema.Outbox, id}
}

func movesIn(entries []entry) moves {
	m := moves{make(map[content]bool), make(map[content]bool)}
	for _, e := range entries {
		switch e.status {
		case 'A':
			m.added[e.content()] = true
		case 'D':
			m.removed[e.content()] = true
		}
	}
	return m
}

// within reports whether an added file was in the mailbox before, or a removed one still is.
func (m moves) within(e entry) bool {
	if e.status == 'D' {
		return m.added[e.content()]
	}
	return m.removed[e.content()]
}

// diff lists the message files that change below the paths or, if there are none, in workspaces.
func (c *check) diff(ctx context.Context, paths []string) error {
	out, err := c.git.Run(ctx, "diff-index", "--cached", c.base, "--raw", "-z", "--no-renames", "--no-abbrev", "--", ":(top,glob)**/agents/**")
	if err != nil {
		return err
	}
	all, err := parseRaw(out)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		marked, err := c.marked(all)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(e entry) bool { return !marked[e.workspace] })
	} else {
		all = slices.DeleteFunc(all, func(e entry) bool {
			return !slices.ContainsFunc(paths, func(p string) bool { return p == "." || e.path == p || strings.HasPrefix(e.path, p+"/") })
		})
	}
	c.entries = all
	for _, e := range all {
		if e.box == schema.Outbox && isFile(e.mode) && e.status != 'D' {
			c.outboxes[e.path] = e.id
		}
	}
	return nil
}

// parseRaw parses the output of git diff-index --raw -z, and returns the files in mailboxes.
func parseRaw(out []byte) (found []entry, err error) {
	var words []string
	for field := range git.Records(out) {
		if words == nil { // :oldmode mode before id status
			words = strings.Split(strings.TrimPrefix(field, ":"), " ")
			if len(words) != 5 || words[4] == "" {
				return nil, fmt.Errorf("git printed %.200q for a difference", field)
			}
			continue
		}
		if at, ok := schema.Locate(field); ok && schema.IsMessageFile(at.Name) {
			found = append(found, entry{
				path: field, workspace: at.Workspace, agent: at.Agent, box: at.Box,
				oldMode: words[0], mode: words[1], before: words[2], id: words[3], status: words[4][0],
			})
		}
		words = nil
	}
	if words != nil {
		return nil, errors.New("git printed half a line of a difference")
	}
	return found, nil
}

// marked returns which folders of the entries are workspaces: they have a workspace.json in the change or its
// base.
func (c *check) marked(entries []entry) (map[string]bool, error) {
	marked := make(map[string]bool)
	for _, e := range entries {
		if _, known := marked[e.workspace]; known || strings.Contains(e.workspace, "\n") {
			continue
		}
		marker := e.workspace + schema.MarkerName
		for _, name := range []string{inBase(c.base, marker), inIndex(marker)} {
			data, err := c.object(name)
			if _, large := errors.AsType[git.UnwantedError](err); err != nil && !large {
				return nil, err
			}
			marked[e.workspace] = marked[e.workspace] || data != nil || err != nil
		}
	}
	return marked, nil
}

// inBase returns the name in git of a file before the change.
func inBase(base, file string) string { return base + ":" + file }

// inIndex returns the name in git of a file after the change. It names stage 0, because the name of a folder
// may begin like the number of another stage.
func inIndex(file string) string { return ":0:" + file }

// namesOf returns the paths at which the sender's copy of a message can be.
func namesOf(e entry, m *schema.Message) (names []string) {
	if !m.From.Valid() {
		return nil
	}
	candidates := []string{path.Base(e.path), m.FileName()}
	if long, err := m.LongFileName(); err == nil {
		candidates = append(candidates, long)
	}
	slices.Sort(candidates)
	folder := e.workspace + schema.BoxPath(m.From, schema.Outbox) + "/"
	for _, name := range slices.Compact(candidates) {
		if strings.ContainsAny(name, "\n/") {
			continue
		}
		names = append(names, folder+name)
		if parsed, err := schema.ParseFileName(name); err == nil {
			names = append(names, folder+parsed.At.Format("20060102")+"/"+name)
		}
	}
	return names
}
