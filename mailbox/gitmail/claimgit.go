package gitmail

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// ClaimOptions say how claims on messages in the inbox of an agent are made. Lease is how long a claim holds without a
// renewal; see DefaultLease. Sync are the options of the syncs that claims need.
type ClaimOptions struct {
	Agent schema.AgentName
	Lease time.Duration
	Sync  Options
}

// NewClaims returns claims on the messages of an agent. It needs no remote that answers. Another process
// must not work the same inbox of this workspace between Start and Stop.
func (r *Repository) NewClaims(ctx context.Context, o ClaimOptions) (*Claims, error) {
	if r.settings.URL == "" {
		return nil, ErrNoRemote
	}
	tree, err := r.git.Run(ctx, "hash-object", "-w", "-t", "tree", "--stdin")
	if err != nil {
		return nil, err
	}
	number, err := workspaceNumber(r.w)
	c := newClaims(o, &gitRefs{r: r, tree: strings.TrimSpace(string(tree))}, number)
	c.sync = func(ctx context.Context) error {
		_, err := r.Sync(ctx, o.Sync)
		return err
	}
	c.pending = func(ctx context.Context, id schema.ID) bool {
		entries, err := r.w.Inbox(ctx, o.Agent)
		return err != nil || slices.ContainsFunc(entries, func(e mailbox.Entry) bool { return e.Message != nil && e.Message.ID == id })
	}
	return c, err
}

func newClaims(o ClaimOptions, refs claimStore, workspace string) *Claims {
	return &Claims{
		agent: o.Agent, lease: cmp.Or(o.Lease, DefaultLease), machine: hostName(), workspace: workspace, process: randomNumber(),
		refs: refs, now: time.Now, changed: make(chan struct{}, 1), pushing: make(chan struct{}, 1), held: make(map[schema.ID]*heldClaim),
	}
}

func randomNumber() string {
	raw := make([]byte, randomSize)
	_, _ = rand.Read(raw) // it never fails
	return hex.EncodeToString(raw)
}

// workspaceNumber returns a number of the workspace on this machine, by which a process recognizes the
// claims of an earlier process that died. A copy of the workspace elsewhere has another one, so that it does
// not take the claims of the original for its own.
func workspaceNumber(w *mailbox.Workspace) (string, error) {
	const name = stateFolder + "/number"
	if err := w.MakeStateFolder(stateFolder); err != nil {
		return "", err
	}
	if _, err := w.AddFile(name, []byte(randomNumber()+"\n")); err != nil {
		return "", err
	}
	data, err := durable.ReadFile(w.Root(), w.Dir(), name, 1<<10)
	sum := sha256.Sum256([]byte(strings.Join([]string{strings.TrimSpace(string(data)), hostName(), w.Dir()}, "\x00")))
	return hex.EncodeToString(sum[:randomSize]), err
}

// ListClaims returns the claims of all agents and machines as of the last sync, including refs that hold
// no claim.
func (r *Repository) ListClaims(ctx context.Context) ([]Claim, error) {
	return (&gitRefs{r: r}).local(ctx, claimRefs)
}

// claimStore is where claims are: gitRefs, or memory in a test. push makes updates and notes which refs moved; the error
// says why others did not, unless they were elsewhere. remote returns the objects of refs with a prefix, and local the
// claims there that the last sync fetched.
type claimStore interface {
	push(ctx context.Context, updates []refUpdate) error
	remote(ctx context.Context, prefix string) (map[string]string, error)
	local(ctx context.Context, prefix string) ([]Claim, error)
}

// refUpdate moves a ref of the remote to the commit of a claim with a text, which push makes, or deletes it if there is
// none.
type refUpdate struct {
	git.Update
	text  string
	begun time.Time
	state ClaimState
	// moved says that the ref is known to be at the commit.
	moved bool
}

// pushedRefs is how many refs a push updates at most. A command line has room for so many.
const pushedRefs = 50

// gitRefs are the claims of a repository. Only push needs the empty tree.
type gitRefs struct {
	r    *Repository
	tree string
}

func (g *gitRefs) push(ctx context.Context, updates []refUpdate) (err error) {
	const who = "oacp <oacp@localhost>"
	moves := make([]git.Update, len(updates))
	for i := range updates {
		u := &updates[i]
		commit := git.Commit{Author: who, Authored: u.begun, Committer: who, Committed: u.begun, Text: u.text}
		if u.text != "" {
			u.To, err = g.r.git.CommitTree(ctx, g.tree, "", commit, false)
		}
		if moves[i] = u.Update; err != nil {
			return err
		}
	}
	for len(moves) > 0 {
		some := moves[:min(len(moves), pushedRefs)]
		pushed, pushErr := g.r.git.Push(ctx, remoteName, some, "--no-verify")
		err = errors.Join(err, g.pushError(some, pushed, pushErr))
		for i, p := range pushed {
			updates[i].moved = p.Moved
		}
		moves, updates = moves[len(some):], updates[len(some):]
	}
	return err
}

// pushError returns why some updates were not made; nothing for refs that were elsewhere.
func (g *gitRefs) pushError(updates []git.Update, pushed []git.Pushed, err error) error {
	for i, p := range pushed {
		if p.Refused != "" && !strings.HasPrefix(p.Refused, "[rejected]") { // the remote did
			e := g.r.remoteError(&git.Error{Args: []string{"push"}, Exit: git.Exit(err), Stderr: updates[i].Ref + ": " + p.Refused}, true)
			e.Claims = true
			return e
		}
	}
	if err != nil && slices.Contains(pushed, git.Pushed{}) { // otherwise git says once more that it did not do all
		return g.r.remoteError(err, false)
	}
	return nil
}

func (g *gitRefs) remote(ctx context.Context, prefix string) (map[string]string, error) {
	objects, err := g.r.git.RemoteRefs(ctx, remoteName, prefix+"*")
	if err != nil {
		return nil, g.r.remoteError(err, false)
	}
	return objects, nil
}

func (g *gitRefs) local(ctx context.Context, prefix string) (claims []Claim, err error) {
	const format = "--format=%(refname) %(objectname) %(contents:subject)"
	out, err := g.r.git.Run(ctx, "for-each-ref", format, strings.TrimSuffix(prefix, "/"))
	for line := range strings.Lines(string(out)) {
		ref, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		object, text, _ := strings.Cut(rest, " ")
		claims = append(claims, claimAt(ref, object, text))
	}
	return claims, err
}
