package gitmail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

// ErrShallow is returned for squashing a history whose beginning is missing here.
var ErrShallow = errors.New("the history is shallow: its beginning is not here")

// rewrite rewrites the history of a tip. The commits before the first one that is not older than the time
// become one commit, with the tree of the last of them. The others follow with their trees, authors,
// committers, dates and messages. They lose their signatures, which no longer match; with commit.gpgsign,
// the user signs all of them. Only first parents are followed: what was merged by hand stays in the tree,
// and its commits are left out.
func (r *Repository) rewrite(ctx context.Context, tip string, before time.Time) (Squashed, error) {
	g := r.git
	if out, err := g.Run(ctx, "rev-parse", "--is-shallow-repository"); err != nil {
		return Squashed{}, err
	} else if string(bytes.TrimSpace(out)) == "true" {
		return Squashed{}, ErrShallow
	}
	commits, old, err := history(ctx, g, tip, before)
	if err != nil || old < 2 {
		return Squashed{Before: len(commits), After: len(commits), Commit: tip}, err
	}
	committer, err := r.committer(ctx)
	if err != nil {
		return Squashed{}, err
	}
	kept := commits[old-1:]
	objects, err := g.RunInput(ctx, strings.NewReader(strings.Join(kept, "\n")+"\n"), "cat-file", "--batch")
	if err != nil {
		return Squashed{}, err
	}
	stream, err := replay(objects, fmt.Sprintf("%s commits before %s\n\nThe last of them was %s.\n\n[skip ci]\n",
		grouped(old), before.UTC().Format(time.DateOnly), kept[0]), committer)
	if err != nil {
		return Squashed{}, err
	}
	out, err := g.RunInput(ctx, stream, "fast-import", "--quiet", "--done", "--force", "--date-format=raw-permissive")
	if err != nil {
		return Squashed{}, err
	}
	made := Squashed{Before: len(commits), After: len(kept), Commit: string(bytes.TrimSpace(out))}
	if out, err = g.Run(ctx, "rev-parse", tip+"^{tree}", made.Commit+"^{tree}"); err != nil {
		return made, err
	}
	if trees := slices.Compact(strings.Fields(string(out))); len(trees) != 1 {
		return made, fmt.Errorf("commit %s is not what %s is: found trees %q", made.Commit, tip, trees)
	}
	made.Commit, err = r.sign(ctx, "", made.Commit, made.After)
	return made, err
}

// history returns the commits from the first to the tip, and how many of them are old.
func history(ctx context.Context, g *git.Repository, tip string, before time.Time) (commits []string, old int, err error) {
	out, err := g.Run(ctx, "rev-list", "--first-parent", "--reverse", "--timestamp", tip)
	if err != nil {
		return nil, 0, err
	}
	old = -1
	for line := range strings.Lines(string(out)) {
		date, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseInt(date, 10, 64)
		if err != nil || id == "" {
			return nil, 0, fmt.Errorf("git rev-list: cannot read %.100q", line)
		}
		if old < 0 && seconds >= before.Unix() {
			old = len(commits)
		}
		commits = append(commits, id)
	}
	if old < 0 {
		old = len(commits)
	}
	return commits, old, nil
}

// replay returns input with which fast-import makes commits again, each on the one before, and prints the
// id of the last. The commits are given as cat-file prints them. The first one gets the message and the
// committer.
func replay(objects []byte, message, committer string) (*bytes.Buffer, error) {
	var stream bytes.Buffer
	n := 0
	for ; len(objects) > 0; n++ {
		c, rest, err := readCommit(objects)
		if err != nil {
			return nil, err
		}
		objects = rest
		if n == 0 {
			who := committer + c.committer[identity(c.committer):]
			c = commit{tree: c.tree, author: "author " + who, committer: "committer " + who, message: []byte(message)}
		}
		fmt.Fprintf(&stream, "commit %s\nmark :%d\n", nextRef, n+1)
		for _, header := range [...]string{c.author, c.committer, c.encoding} {
			if header != "" {
				fmt.Fprintln(&stream, header)
			}
		}
		fmt.Fprintf(&stream, "data %d\n%s\n", len(c.message), c.message)
		if n > 0 {
			fmt.Fprintf(&stream, "from :%d\n", n)
		}
		fmt.Fprintf(&stream, "M 040000 %s \"\"\n\n", c.tree)
	}
	fmt.Fprintf(&stream, "get-mark :%d\ndone\n", n)
	return &stream, nil
}

// A commit has what fast-import needs to write one. Author, committer and encoding are as in the
// object.
type commit struct {
	tree, author, committer, encoding string
	message                           []byte
}

// identity returns where the name and address in a committer line end, and the date begins.
func identity(line string) int { return strings.LastIndexByte(line, '>') + 1 }

// readCommit reads the first commit of the output of cat-file, and returns the rest.
func readCommit(output []byte) (c commit, rest []byte, err error) {
	head, body, _ := bytes.Cut(output, []byte("\n"))
	fields := strings.Fields(string(head))
	if len(fields) != 3 || fields[1] != "commit" {
		return c, nil, fmt.Errorf("git cat-file: want a commit, found %.100q", head)
	}
	size, err := strconv.Atoi(fields[2])
	if err != nil || size < 0 || size >= len(body) {
		return c, nil, fmt.Errorf("git cat-file: commit %s is not whole", fields[0])
	}
	object, rest := body[:size], body[size+1:]
	headers, message, _ := bytes.Cut(object, []byte("\n\n"))
	c.message = message
	for line := range strings.Lines(string(headers)) {
		line = strings.TrimSuffix(line, "\n")
		switch name, value, _ := strings.Cut(line, " "); name {
		case "tree":
			c.tree = value
		case "author":
			c.author = line
		case "committer":
			c.committer = line
		case "encoding":
			c.encoding = line
		}
	}
	if c.tree == "" || identity(c.committer) == 0 {
		return c, nil, fmt.Errorf("commit %s has no tree or no committer", fields[0])
	}
	return c, rest, nil
}

// grouped writes a number with a comma before each group of three digits.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
