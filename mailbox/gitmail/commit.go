package gitmail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

// An edit is what a commit changes in the tree of the tip.
type edit struct {
	Change
	// own says that the change was made here, and that no other machine has it.
	own    bool
	write  []file
	remove []string
}

// file is a file for the tree: the bytes, or the object that holds them.
type file struct {
	path, object string
	data         []byte
}

// mostCommits is how many changes get a commit each. More share one.
const mostCommits = 20

// commit makes commits of edits on a parent, which may be empty, and returns the last one.
func (r *Repository) commit(ctx context.Context, parent string, now time.Time, edits []*edit) (string, error) {
	if len(edits) == 0 {
		return parent, nil
	}
	committer, err := r.committer(ctx)
	if err != nil {
		return "", err
	}
	groups := [][]*edit{edits}
	if len(edits) <= mostCommits {
		groups = slices.Collect(slices.Chunk(edits, 1))
	}
	var input bytes.Buffer
	for i, group := range groups {
		writeCommit(&input, i+1, group, committer, now)
		if i == 0 && parent != "" {
			fmt.Fprintf(&input, "from %s\n", parent)
		}
		writeEdits(&input, group)
	}
	fmt.Fprintf(&input, "get-mark :%d\ndone\n", len(groups))
	out, err := r.git.RunInput(ctx, &input, "fast-import", "--quiet", "--force", "--done", "--date-format=raw")
	if err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(out))
	if len(commit) != 40 && len(commit) != 64 {
		return "", fmt.Errorf("git fast-import: %w: %.100q", errTree, out)
	}
	return r.sign(ctx, parent, commit, len(groups))
}

// writeCommit writes the beginning of a commit for git fast-import.
func writeCommit(input *bytes.Buffer, mark int, edits []*edit, committer string, now time.Time) {
	author, at, text := committer, now, message(edits)
	if c := edits[0].Change; len(edits) == 1 && c.Agent != "" {
		author = fmt.Sprintf("%s <%s@oacp>", c.Agent, c.Agent)
		if c.Kind == Sent {
			at = c.at
		}
	}
	fmt.Fprintf(input, "commit %s\nmark :%d\nauthor %s %d +0000\ncommitter %s %d +0000\ndata %d\n%s\n",
		nextRef, mark, author, max(at.Unix(), 0), committer, now.Unix(), len(text), text)
}

// writeEdits writes the rest of the commit.
func writeEdits(input *bytes.Buffer, edits []*edit) {
	for _, edit := range edits {
		for _, path := range edit.remove {
			fmt.Fprintf(input, "D %s\n", path)
		}
		for _, file := range edit.write {
			if file.object != "" {
				fmt.Fprintf(input, "M %s %s %s\n", regular, file.object, file.path)
			} else {
				fmt.Fprintf(input, "M %s inline %s\ndata %d\n%s\n", regular, file.path, len(file.data), file.data)
			}
		}
	}
	input.WriteByte('\n')
}

// committer returns the user's name and address, as in a commit: Ann <ann@example.com>.
func (r *Repository) committer(ctx context.Context) (string, error) {
	out, err := r.git.Run(ctx, "var", "GIT_COMMITTER_IDENT")
	if git.Exit(err) == damaged { // git does not know who the user is
		host, _ := os.Hostname() // an empty one does
		return "oacp <oacp@" + clean(host) + ">", nil
	}
	if err != nil {
		return "", err
	}
	name, _, ok := strings.Cut(string(out), "> ")
	if !ok {
		return "", fmt.Errorf("git var: %w: %.100q", errTree, out)
	}
	return name + ">", nil
}

// message returns the text of a commit. It keeps CI from starting a build for mail.
func message(edits []*edit) string {
	text := ""
	if len(edits) == 1 {
		text = edits[0].String()
		if edits[0].ID != "" {
			text += "\n\n" + string(edits[0].ID)
		}
	} else {
		changes := make([]Change, len(edits))
		for i, edit := range edits {
			changes[i] = edit.Change
		}
		text = Subject(changes)
	}
	return text + "\n\n[skip ci]\n"
}

// ErrSigning says that git could not sign a commit.
var ErrSigning = errors.New("signing, as commit.gpgsign asks for")

// sign makes the n commits that follow the parent again, with the user's signature, and returns the last
// one: git fast-import cannot sign. The parent may be empty. Without commit.gpgsign, it does nothing.
func (r *Repository) sign(ctx context.Context, parent, commit string, n int) (string, error) {
	if !r.settings.sign {
		return commit, nil
	}
	out, err := r.git.Run(ctx, "log", "--first-parent", "--reverse", fmt.Sprintf("--max-count=%d", n), "--no-show-signature", "--encoding=UTF-8",
		"-z", "--format=%T%n%an%n%ae%n%ad%n%cn%n%ce%n%cd%n%B", "--date=raw", commit)
	if err != nil {
		return "", err
	}
	const fields = 8
	for made := range records(out) {
		f := strings.SplitN(made, "\n", fields)
		if len(f) != fields {
			return "", fmt.Errorf("git log: %w: %.100q", errTree, made)
		}
		if parent, err = r.commitTree(ctx, f[0], parent, f[1:4], f[4:7], f[7]); err != nil {
			return "", err
		}
	}
	_, err = r.git.Run(ctx, "update-ref", nextRef, parent)
	return parent, err
}

// commitTree makes a commit of a tree, with the user's signature if there is to be one. An author and a committer are a
// name, an address and a time.
func (r *Repository) commitTree(ctx context.Context, tree, parent string, author, committer []string, text string) (string, error) {
	g := *r.git
	g.Env = append(slices.Clone(g.Env), "GIT_AUTHOR_NAME="+author[0], "GIT_AUTHOR_EMAIL="+author[1], "GIT_AUTHOR_DATE="+author[2],
		"GIT_COMMITTER_NAME="+committer[0], "GIT_COMMITTER_EMAIL="+committer[1], "GIT_COMMITTER_DATE="+committer[2])
	args := []string{"commit-tree", "-F", "-"}
	if r.settings.sign {
		args = append(args, "-S")
	}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	out, err := g.RunInput(ctx, strings.NewReader(text), append(args, tree)...)
	if err != nil && r.settings.sign {
		err = fmt.Errorf("%w: %w", ErrSigning, err)
	}
	return strings.TrimSpace(string(out)), err
}
