package commit

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
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

	// isNew says that git does not know the file.
	isNew bool
}

// Changes are the differences between a workspace and HEAD.
type Changes struct {
	// Files are sorted by path.
	Files []File
	// Events say what happened to agents and messages, the oldest message first.
	Events []history.Change
	// Skipped are folders below the workspace with a repository of their own.
	Skipped []string

	// unstaged are files that are in the index, but neither in HEAD nor in the folder.
	unstaged []File
	// edited is a message file whose content differs from that in HEAD, or empty.
	edited string
}

// look finds the changes. Delivery writes the outbox copy of a message before its inbox copies, but git may
// read the folders in another order. So look asks twice, and leaves out inbox copies that only the second
// answer has: no commit may have one without its outbox copy.
func (r *Repository) look(ctx context.Context) (c Changes, err error) {
	before, err := r.status(ctx)
	if err != nil || len(before.Files)+len(before.unstaged) == 0 {
		return before, err
	}
	if c, err = r.status(ctx); err != nil {
		return c, err
	}
	if c.edited != "" {
		return c, failure.New("edited_message", c.edited+" was committed before, and now has other content", // others may have read it
			"rename the file if it is a new message; git restore brings the old one back")
	}
	known := make(map[string]bool, len(before.Files))
	for _, f := range before.Files {
		known[f.Path] = true
	}
	c.Files = slices.DeleteFunc(c.Files, func(f File) bool {
		at, ok := locate(f.Path)
		return ok && at.Box == mailbox.Inbox && f.Status == Added && !known[f.Path]
	})
	c.Events = r.events(c.Files)
	return c, nil
}

// status asks git for the differences from HEAD in the workspace.
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
	found := make(map[string]File)
	for line := range git.Records(out) {
		f, isEdit, err := parse(line)
		if err != nil {
			return c, err
		}
		below, isInside := strings.CutPrefix(f.Path, r.prefix)
		if !isInside || !belongs(below) {
			continue
		}
		if folder, isFolder := strings.CutSuffix(below, "/"); isFolder {
			c.Skipped = append(c.Skipped, folder)
			continue
		}
		f.Path = below
		if f.isNew && found[below].Status == Removed { // removed only from the index
			f.Status = Changed
		}
		found[below] = f
		if at, ok := locate(below); ok && isEdit && c.edited == "" && schema.IsMessageFile(at.Name) {
			c.edited = below
		}
	}
	for _, f := range found {
		if f.Status == "" {
			c.unstaged = append(c.unstaged, f)
		} else {
			c.Files = append(c.Files, f)
		}
	}
	slices.SortFunc(c.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return c, nil
}

// parse parses a line of git status, whose path is relative to the top of the repository. The status is empty for a file
// that is neither in HEAD nor in the folder. isEdit says that the file changed and not only its mode.
func parse(line string) (f File, isEdit bool, err error) {
	// 1 XY sub mH mI mW hH hI path
	fields := strings.SplitN(line, " ", 9)
	switch {
	case fields[0] == "?" && len(line) > 2:
		return File{Status: Added, Path: line[2:], isNew: true}, false, nil
	case fields[0] == "u":
		return f, false, errUnfinished("merge with conflicts")
	case fields[0] != "1" || len(fields) != 9:
		return f, false, fmt.Errorf("git status printed %.200q", line)
	}
	const none = "000000"
	f.Path = fields[8]
	switch head, folder := fields[3], fields[5]; {
	case head == none && folder != none:
		f.Status = Added
	case head != none && folder == none:
		f.Status = Removed
	case head != none:
		f.Status, isEdit = Changed, head == folder
	}
	return f, isEdit, nil
}

// belongs reports whether a file below the workspace is part of it. Hidden files are temporary, except those of
// git.
func belongs(name string) bool {
	dir, base := path.Split(name)
	if strings.HasPrefix(dir, ".") || strings.Contains(dir, "/.") {
		return false
	}
	return !strings.HasPrefix(base, ".") || slices.Contains([]string{".gitkeep", attributesName, ".gitignore"}, base)
}

// locate returns the place of a file in a mailbox of the workspace.
func locate(name string) (at schema.Location, ok bool) {
	at, ok = schema.Locate(name)
	return at, ok && name == schema.BoxPath(at.Agent, at.Box)+"/"+at.Name
}
