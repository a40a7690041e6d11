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

// UpdateRefs moves refs of the repository. An empty object leaves one where it is.
func (r *Repository) UpdateRefs(ctx context.Context, refs map[string]string) error {
	var input strings.Builder
	for ref, object := range refs {
		if object != "" {
			fmt.Fprintf(&input, "update %s %s\n", ref, object)
		}
	}
	_, err := r.RunInput(ctx, strings.NewReader(input.String()), "update-ref", "--stdin")
	return err
}

// An Update moves a ref of a remote from one object to another. An empty object stands for no ref.
type Update struct{ Ref, From, To string }

// A Pushed says what became of an update. If it neither moved the ref nor was refused, git does not say.
type Pushed struct {
	// Moved says that the update moved the ref; it is false if the ref was there already.
	Moved bool
	// Refused is what git says of a ref that did not move, such as [rejected] (stale info), and Raced says that somebody
	// else moved it.
	Refused string
	Raced   bool
}

// races are what git says of a ref that somebody else moved: it compares first, and the remote once more when it moves
// the ref.
var races = []string{"(stale info)", "cannot lock ref", "incorrect old value provided", "failed to update ref", "reference already exists"}

// Push makes updates, each for itself, of refs that are where the updates say. The options are those of git push. It
// returns what became of each update, also with an *Error, which git returns if it did not make all of them.
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
