package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Commit is a commit to make.
type Commit struct {
	// Author and Committer have the form Ann <ann@example.com>.
	Author, Committer   string
	Authored, Committed time.Time
	Text                string
	// Files are the changes to the tree of the parent, in this order.
	Files []File
}

// A File is a change to a tree: a regular file with these bytes, or with the bytes of the object. If Removed is set, it removes
// the file or folder at the path.
type File struct {
	Path, Object string
	Data         []byte
	Removed      bool
}

// ErrSigning says that git could not sign a commit.
var ErrSigning = errors.New("signing, as commit.gpgsign asks for")

// Import makes commits, each on the one before it and the first on the parent, which may be empty. It moves the ref to the
// last one and returns it. With sign, git signs the commits.
func (r *Repository) Import(ctx context.Context, ref, parent string, commits []Commit, sign bool) (string, error) {
	out, err := r.RunInput(ctx, input(ref, parent, commits), "fast-import", "--quiet", "--force", "--done", "--date-format=raw")
	if err != nil {
		return "", err
	}
	made := strings.TrimSpace(string(out))
	if len(made) != 40 && len(made) != 64 {
		return "", fmt.Errorf("git fast-import: %w: %.100q", errOutput, out)
	}
	if !sign {
		return made, nil
	}
	return r.sign(ctx, ref, parent, made, commits)
}

// input returns commits for fast-import.
func input(ref, parent string, commits []Commit) *bytes.Buffer {
	w := new(bytes.Buffer)
	for i, c := range commits {
		fmt.Fprintf(w, "commit %s\nmark :%d\nauthor %s %s\ncommitter %s %s\ndata %d\n%s\n",
			ref, i+1, c.Author, raw(c.Authored), c.Committer, raw(c.Committed), len(c.Text), c.Text)
		if i == 0 && parent != "" {
			fmt.Fprintf(w, "from %s\n", parent)
		}
		for _, file := range c.Files {
			switch {
			case file.Removed:
				fmt.Fprintf(w, "D %s\n", quote(file.Path))
			case file.Object != "":
				fmt.Fprintf(w, "M %s %s %s\n", Regular, file.Object, quote(file.Path))
			default:
				fmt.Fprintf(w, "M %s inline %s\ndata %d\n%s\n", Regular, quote(file.Path), len(file.Data), file.Data)
			}
		}
		w.WriteByte('\n')
	}
	fmt.Fprintf(w, "get-mark :%d\ndone\n", len(commits))
	return w
}

// quote quotes a path for fast-import, which otherwise would take a line feed for the end of the command.
func quote(path string) string { return `"` + quoted.Replace(path) + `"` }

var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// sign makes the commits of fast-import again, because fast-import cannot sign.
func (r *Repository) sign(ctx context.Context, ref, parent, last string, commits []Commit) (string, error) {
	out, err := r.Run(ctx, "log", "--first-parent", "--reverse", fmt.Sprintf("--max-count=%d", len(commits)), "--no-show-signature", "--format=%T", last)
	if err != nil {
		return "", err
	}
	trees := strings.Fields(string(out))
	if len(trees) != len(commits) {
		return "", fmt.Errorf("git log: %w: %.100q", errOutput, out)
	}
	for i, c := range commits {
		if parent, err = r.CommitTree(ctx, trees[i], parent, c, true); err != nil {
			return "", err
		}
	}
	return parent, r.UpdateRefs(ctx, map[string]string{ref: parent})
}

// CommitTree makes a commit of a tree on a parent, which may be empty, and returns it. It ignores the files of the
// commit. If git fails with sign, the error matches ErrSigning.
func (r *Repository) CommitTree(ctx context.Context, tree, parent string, c Commit, sign bool) (string, error) {
	with := *r
	with.Env = slices.Clone(r.Env)
	who := func(role, name string, at time.Time) {
		name, address, _ := strings.Cut(strings.TrimSuffix(name, ">"), " <")
		with.Env = append(with.Env, "GIT_"+role+"_NAME="+name, "GIT_"+role+"_EMAIL="+address, "GIT_"+role+"_DATE=@"+raw(at))
	}
	who("AUTHOR", c.Author, c.Authored)
	who("COMMITTER", c.Committer, c.Committed)
	args := []string{"commit-tree", "-F", "-"}
	if sign {
		args = append(args, "-S")
	}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	out, err := with.RunInput(ctx, strings.NewReader(c.Text), append(args, tree)...)
	if err != nil && sign {
		err = fmt.Errorf("%w: %w", ErrSigning, err)
	}
	return strings.TrimSpace(string(out)), err
}

// raw formats a time as git stores it.
func raw(at time.Time) string { return fmt.Sprintf("%d +0000", max(at.Unix(), 0)) }
