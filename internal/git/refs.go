package git

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Refs returns the objects of the refs that git for-each-ref lists with the arguments, by name.
func (r *Repository) Refs(ctx context.Context, args ...string) (map[string]string, error) {
	out, err := r.Run(ctx, append([]string{"for-each-ref", "--format=%(objectname)%09%(refname)"}, args...)...)
	return parseRefs(out), err
}

// RemoteRefs returns the objects of the refs of a remote that match the patterns of git ls-remote, by name.
func (r *Repository) RemoteRefs(ctx context.Context, remote string, patterns ...string) (map[string]string, error) {
	out, err := r.Run(ctx, append([]string{"ls-remote", "--", remote}, patterns...)...)
	return parseRefs(out), err
}

func parseRefs(out []byte) map[string]string {
	refs := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		object, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		refs[ref] = object
	}
	return refs
}

// UpdateRefs moves refs of the repository to objects. It leaves a ref with an empty object where it is.
func (r *Repository) UpdateRefs(ctx context.Context, refs map[string]string) error {
	var input strings.Builder
	for ref, object := range refs {
		if object != "" {
			fmt.Fprintf(&input, "update %s\x00%s\x00\x00", ref, object)
		}
	}
	_, err := r.RunInput(ctx, strings.NewReader(input.String()), "update-ref", "-z", "--stdin")
	return err
}

// An Update moves a ref of a remote from one object to another. An empty object stands for no ref.
type Update struct{ Ref, From, To string }

// A Pushed is the result of an update. If the ref neither moved nor was refused, git did not report on it.
type Pushed struct {
	// Moved says that the update moved the ref. It is false if the ref was already there.
	Moved bool
	// Refused is the reason of git for not moving the ref, such as [rejected] (stale info), and Raced says that somebody
	// else had moved it.
	Refused string
	Raced   bool
}

// races are the messages of git about a ref that somebody else moved. git compares the ref before the push, and the
// remote once more when it moves the ref.
var races = []string{"(stale info)", "cannot lock ref", "incorrect old value provided", "failed to update ref", "reference already exists"}

// Push makes updates independently of each other; each moves its ref only if that is still at From. The options are those
// of git push. Push returns the result of each update, even with an *Error, which says that git did not make all of them.
func (r *Repository) Push(ctx context.Context, remote string, updates []Update, options ...string) ([]Pushed, error) {
	args, moves := append([]string{"push", "--porcelain", "--no-progress"}, options...), []string{remote}
	for _, u := range updates {
		args, moves = append(args, "--force-with-lease="+u.Ref+":"+u.From), append(moves, u.To+":"+u.Ref)
	}
	out, err := r.Run(ctx, append(args, moves...)...)
	said := ""
	if failed, ok := errors.AsType[*Error](err); ok {
		said = failed.Stderr
	}
	pushed := make([]Pushed, len(updates))
	for line := range strings.Lines(string(out)) { // flag, from:to, what happened
		flag, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		names, summary, _ := strings.Cut(rest, "\t")
		_, ref, _ := strings.Cut(names, ":")
		i := slices.IndexFunc(updates, func(u Update) bool { return u.Ref == ref })
		switch {
		case i < 0:
		case flag == "!":
			pushed[i].Refused = summary
			pushed[i].Raced = slices.ContainsFunc(races, func(race string) bool { return strings.Contains(summary+said, race) })
		default:
			pushed[i].Moved = flag != "="
		}
	}
	return pushed, err
}
