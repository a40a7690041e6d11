package gitmail

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

// refUpdate moves a ref of the remote from one object to another, if it is still at the first. An
// empty object stands for no ref.
type refUpdate struct{ ref, from, to string }

// refResult is what became of an update.
type refResult int

const (
	// refUnknown is an update that the remote did not report: it may have happened.
	refUnknown refResult = iota
	refMoved
	// refStale is an update of a ref that was elsewhere.
	refStale
	// refRefused is an update that the remote refused: it forbids it, or another push was at work.
	refRefused
)

// pushedRefs is how many refs a push updates at most. A command line has room for so many.
const pushedRefs = 50

// gitRefs reads and writes the claims of a repository and its remote with git.
type gitRefs struct {
	r *Repository
	// tree is the empty tree. Only write needs it.
	tree string
}

func newGitRefs(ctx context.Context, r *Repository) (*gitRefs, error) {
	out, err := r.git.Run(ctx, "hash-object", "-w", "-t", "tree", "--stdin")
	return &gitRefs{r: r, tree: strings.TrimSpace(string(out))}, err
}

// write makes the commit of a claim and returns its name.
func (g *gitRefs) write(ctx context.Context, text string, at time.Time) (string, error) {
	out, err := g.r.git.RunInput(ctx, bytes.NewReader(claimCommit(g.tree, text, at)), "hash-object", "-w", "-t", "commit", "--stdin")
	return strings.TrimSpace(string(out)), err
}

// push updates refs of the remote, each on its own. The results are in the order of the updates. The
// error says why some are refUnknown or refRefused.
func (g *gitRefs) push(ctx context.Context, updates []refUpdate) ([]refResult, error) {
	results := make([]refResult, 0, len(updates))
	var errs []error
	for some := range slices.Chunk(updates, pushedRefs) {
		chunk, err := g.pushSome(ctx, some)
		results, errs = append(results, chunk...), append(errs, err)
	}
	return results, errors.Join(errs...)
}

func (g *gitRefs) pushSome(ctx context.Context, updates []refUpdate) ([]refResult, error) {
	args := []string{"push", "--porcelain", "--no-verify", "--no-signed"}
	for _, u := range updates {
		args = append(args, "--force-with-lease="+u.ref+":"+u.from)
	}
	args = append(args, remoteName)
	for _, u := range updates {
		args = append(args, u.to+":"+u.ref)
	}
	var out, stderr bytes.Buffer
	command := g.r.git.Command(ctx, args...)
	command.Stdout, command.Stderr = &out, &stderr
	err := git.Failure(ctx, command.Run(), args, stderr.Bytes())
	results := make([]refResult, len(updates))
	var refused error
	for line := range strings.Lines(out.String()) {
		ref, result, why := parsePushLine(line)
		i := slices.IndexFunc(updates, func(u refUpdate) bool { return u.ref == ref })
		if i < 0 {
			continue
		}
		if results[i] = result; result == refRefused && refused == nil {
			failed := g.r.remoteError(&git.Error{Args: args[:1], Exit: git.Exit(err), Stderr: ref + ": " + why}, true)
			failed.Claims = true
			refused = failed
		}
	}
	if !slices.Contains(results, refUnknown) {
		return results, refused // git says only once more that a push did not do all
	}
	if err != nil && refused == nil {
		refused = g.r.remoteError(err, false)
	}
	return results, refused
}

// parsePushLine parses a line of git push --porcelain: flag, tab, from:to, tab, summary.
func parsePushLine(line string) (ref string, result refResult, why string) {
	fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if len(fields) != 3 {
		return "", refUnknown, ""
	}
	_, ref, _ = strings.Cut(fields[1], ":")
	switch fields[0] {
	case "*", "+", " ", "-":
		return ref, refMoved, ""
	case "!":
		if strings.HasPrefix(fields[2], "[rejected]") {
			return ref, refStale, fields[2]
		}
		return ref, refRefused, fields[2]
	}
	return ref, refUnknown, "" // "=": the remote has the object from an earlier push
}

// remote returns the objects of the refs of the remote that begin with the prefix.
func (g *gitRefs) remote(ctx context.Context, prefix string) (map[string]string, error) {
	out, err := g.r.git.Run(ctx, "ls-remote", "--refs", remoteName, prefix+"*")
	if err != nil {
		return nil, g.r.remoteError(err, false)
	}
	objects := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if object, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok && strings.HasPrefix(ref, prefix) {
			objects[ref] = object
		}
	}
	return objects, nil
}

// local returns the claims on the refs that begin with the prefix, as they were at the last sync.
func (g *gitRefs) local(ctx context.Context, prefix string) ([]Claim, error) {
	const format = "--format=%(refname) %(objectname) %(contents:subject)"
	out, err := g.r.git.Run(ctx, "for-each-ref", format, strings.TrimSuffix(prefix, "/"))
	if err != nil {
		return nil, err
	}
	var claims []Claim
	for line := range strings.Lines(string(out)) {
		ref, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		object, text, _ := strings.Cut(rest, " ")
		claims = append(claims, claimAt(ref, object, text))
	}
	return claims, nil
}
