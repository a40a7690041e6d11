package commit

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
	"github.com/oacp-go/oacp/schema"
)

// A Status says how a file differs from the one in HEAD.
type Status string

// The states of files.
const (
	Added   Status = "added"
	Changed Status = "changed"
	Removed Status = "removed"
)

// A File is a file of the workspace that differs from the one in HEAD.
type File struct {
	Status Status `json:"status"`
	// Path is the path below the workspace.
	Path string `json:"path"`
}

// Changes are what is new in a workspace.
type Changes struct {
	// Files are sorted by path.
	Files []File
	// Events are what happened to agents and messages, the oldest message first.
	Events []gitmail.Change
	// Skipped are folders with a repository of their own, relative to the workspace.
	Skipped []string

	// paths are all paths to commit, and added those of them that git does not know, below the top of
	// the repository.
	paths, added []string
	// edited is the file of a message whose content differs from that in HEAD, if there is one.
	edited string
}

// Look finds what is new in the workspace. Delivery writes the outbox copy of a message before its
// inbox copies, but git may look at the folders in another order: Look leaves out an inbox copy that
// appears while it looks, so that no commit has it without its outbox copy.
func (r *Repository) Look(ctx context.Context) (c Changes, err error) {
	before, err := r.status(ctx)
	if err != nil || len(before.paths) == 0 {
		return before, err
	}
	if c, err = r.status(ctx); err != nil {
		return c, err
	}
	if c.edited != "" {
		return c, &EditedError{c.edited}
	}
	known := make(map[string]bool, len(before.paths))
	for _, name := range before.paths {
		known[name] = true
	}
	arriving := make(map[string]bool)
	c.Files = slices.DeleteFunc(c.Files, func(f File) bool {
		name := r.prefix + f.Path
		_, box, _ := inMailbox(f.Path)
		arriving[name] = f.Status == Added && box == mailbox.Inbox && !known[name]
		return arriving[name]
	})
	isArriving := func(name string) bool { return arriving[name] }
	c.paths, c.added = slices.DeleteFunc(c.paths, isArriving), slices.DeleteFunc(c.added, isArriving)
	c.Events = r.events(c.Files)
	return c, nil
}

// status asks git what differs from HEAD in the workspace.
func (r *Repository) status(ctx context.Context) (c Changes, err error) {
	args := []string{"status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=no", "--no-renames",
		"--ignore-submodules=all", "--"}
	for _, name := range r.names {
		args = append(args, literal+r.prefix+name)
	}
	out, err := r.git.Run(ctx, args...)
	if err != nil {
		return c, err
	}
	found := make(map[string]Status)
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if line == "" {
			continue
		}
		name, status, err := r.parse(line)
		if err != nil {
			return c, err
		}
		below, inside := strings.CutPrefix(name, r.prefix)
		switch folder, isFolder := strings.CutSuffix(below, "/"); {
		case !inside || !belongs(below) || name == attributesName && line[0] != '?':
		case isFolder:
			c.Skipped = append(c.Skipped, folder)
		case line[0] == '?':
			c.added = append(c.added, name)
			if found[name] == Removed { // from the index only
				status = Changed
			}
			found[name] = status
		default:
			found[name] = status
			if _, box, base := inMailbox(below); status == Changed && c.edited == "" && box != "" && schema.IsMessageFile(base) && isEdit(line) {
				c.edited = below
			}
		}
	}
	for name, status := range found {
		c.paths = append(c.paths, name)
		if status != "" {
			c.Files = append(c.Files, File{status, strings.TrimPrefix(name, r.prefix)})
		}
	}
	slices.Sort(c.paths)
	slices.SortFunc(c.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return c, nil
}

// parse reads a line of git status. The status is empty for a file that is neither in HEAD nor in the
// folder.
func (r *Repository) parse(line string) (name string, status Status, err error) {
	// 1 XY sub mH mI mW hH hI path
	fields := strings.SplitN(line, " ", 9)
	switch {
	case line[0] == '?' && len(line) > 2:
		return line[2:], Added, nil
	case line[0] == 'u':
		return "", "", &UnfinishedError{"merge with conflicts"}
	case line[0] != '1' || len(fields) != 9:
		return "", "", fmt.Errorf("git status printed %.200q", line)
	}
	const none = "000000"
	switch head, folder := fields[3], fields[5]; {
	case head == none && folder != none:
		status = Added
	case head != none && folder == none:
		status = Removed
	case head != none:
		status = Changed
	}
	return fields[8], status, nil
}

// isEdit reports whether a line of git status is of a file whose content changed, not its mode.
func isEdit(line string) bool {
	fields := strings.SplitN(line, " ", 7)
	return fields[3] == fields[5]
}

// belongs reports whether a file below the workspace is part of it: hidden files are temporary, but
// for those of git.
func belongs(name string) bool {
	dir, base := path.Split(name)
	if strings.HasPrefix(dir, ".") || strings.Contains(dir, "/.") {
		return false
	}
	return !strings.HasPrefix(base, ".") || slices.Contains([]string{".gitkeep", attributesName, ".gitignore"}, base)
}

// inMailbox returns the mailbox folder that holds the file, if it is one of the workspace.
func inMailbox(name string) (agent schema.AgentName, box mailbox.Box, base string) {
	at, ok := schema.Locate(name)
	if !ok || name != schema.BoxPath(at.Agent, at.Box)+"/"+at.Name {
		return "", "", ""
	}
	return at.Agent, at.Box, at.Name
}
