package gitmail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

// refUpdate moves a ref of the remote from one object to another, if it is still at the first. An
// empty object stands for no ref.
type refUpdate struct {
	ref, from, to string
	// text is that of the claim that is the object, empty if there is to be no ref.
	text string
	// begun is when the put began that the update is for, and ends says that it gives the claim up.
	begun time.Time
	ends  bool
}

// refResult is what became of an update.
type refResult int

const (
	// refUnknown is an update that the remote did not report, or did not make: it forbids it, or another
	// push was at work.
	refUnknown refResult = iota
	refMoved
	// refStale is an update of a ref that was elsewhere.
	refStale
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
	who := fmt.Sprintf("oacp <oacp@localhost> %d +0000", max(0, at.Unix()))
	commit := fmt.Sprintf("tree %s\nauthor %s\ncommitter %[2]s\n\n%s\n", g.tree, who, text)
	out, err := g.r.git.RunInput(ctx, strings.NewReader(commit), "hash-object", "-w", "-t", "commit", "--stdin")
	return strings.TrimSpace(string(out)), err
}

// push updates refs of the remote, each on its own. The results are in the order of the updates. The
// error says why some are unknown.
func (g *gitRefs) push(ctx context.Context, updates []refUpdate) (results []refResult, err error) {
	objects := map[string]string{"": ""} // by text: claims with the same text share a commit
	for i, u := range updates {
		if _, isWritten := objects[u.text]; !isWritten {
			if objects[u.text], err = g.write(ctx, u.text, u.begun); err != nil {
				return nil, err
			}
		}
		updates[i].to = objects[u.text]
	}
	for some := range slices.Chunk(updates, pushedRefs) {
		chunk, chunkErr := g.pushSome(ctx, some)
		results, err = append(results, chunk...), errors.Join(err, chunkErr)
	}
	return results, err
}

func (g *gitRefs) pushSome(ctx context.Context, updates []refUpdate) ([]refResult, error) {
	args := []string{"push", "--porcelain", "--no-verify", "--no-signed"}
	moves := []string{remoteName}
	for _, u := range updates {
		args, moves = append(args, "--force-with-lease="+u.ref+":"+u.from), append(moves, u.to+":"+u.ref)
	}
	args = append(args, moves...)
	var out, stderr bytes.Buffer
	command := g.r.git.Command(ctx, args...)
	command.Stdout, command.Stderr = &out, &stderr
	err := git.Failure(ctx, command.Run(), args, stderr.Bytes())
	results := make([]refResult, len(updates))
	var refused *RemoteError
	for line := range strings.Lines(out.String()) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t") // flag, from:to, summary
		if len(fields) != 3 {
			continue
		}
		_, ref, _ := strings.Cut(fields[1], ":")
		i := slices.IndexFunc(updates, func(u refUpdate) bool { return u.ref == ref })
		switch flag, summary := fields[0], fields[2]; {
		case i < 0:
		case flag == "*", flag == "+", flag == " ", flag == "-":
			results[i] = refMoved
		case strings.HasPrefix(summary, "[rejected]"):
			results[i] = refStale
		case flag == "!": // not "=", for which the remote has the object from an earlier push
			refused = g.r.remoteError(&git.Error{Args: args[:1], Exit: git.Exit(err), Stderr: ref + ": " + summary}, true)
			refused.Claims = true
		}
	}
	switch {
	case refused != nil:
		return results, refused
	case err != nil && slices.Contains(results, refUnknown):
		return results, g.r.remoteError(err, false)
	}
	return results, nil // git says only once more that a push did not do all
}

// remote returns the objects of the refs of the remote that begin with the prefix.
func (g *gitRefs) remote(ctx context.Context, prefix string) (map[string]string, error) {
	out, err := g.r.git.Run(ctx, "ls-remote", "--refs", remoteName, prefix+"*")
	if err != nil {
		return nil, g.r.remoteError(err, false)
	}
	objects := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		object, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		objects[ref] = object
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
