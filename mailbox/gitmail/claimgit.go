package gitmail

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// NewClaims returns the claims of this machine on messages in the inbox of an agent. A claim holds for a lease unless it
// is renewed; 0 means DefaultLease. The options are for the syncs that claims need. NewClaims does not contact the
// remote. Between Start and Stop, no other process may work on the same inbox of this workspace.
func (r *Repository) NewClaims(ctx context.Context, agent schema.AgentName, lease time.Duration, o Options) (*Claims, error) {
	if r.settings.URL == "" {
		return nil, ErrNoRemote
	}
	tree, err := r.git.Run(ctx, "hash-object", "-w", "-t", "tree", "--stdin")
	if err != nil {
		return nil, err
	}
	number, err := workspaceNumber(r.w, process.System())
	store := &gitClaims{r, agent, o, strings.TrimSpace(string(tree))}
	c := newClaims(agent, lease, store, number)
	c.earlier = store.observed()
	return c, err
}

// observations are what the processes of a workspace that work on the inbox of an agent know of its claims.
type observations struct {
	// Boot is the start of the machine from which the times count.
	Boot string                    `json:"boot"`
	Seen map[schema.ID]observation `json:"seen"`
}

func (g *gitClaims) observationsName() string {
	return stateFolder + "/claims-" + string(g.agent) + ".json"
}

// observed returns what an earlier process saw since the machine started.
func (g *gitClaims) observed() map[schema.ID]observation {
	var all observations
	data, err := durable.ReadFile(g.w.Root(), g.w.Dir(), g.observationsName(), mostCache)
	if err != nil || json.Unmarshal(data, &all) != nil || all.Boot != process.Boot() {
		return nil // then a lease begins anew
	}
	return all.Seen
}

func (g *gitClaims) remember(seen map[schema.ID]observation) error {
	if process.Boot() == "" {
		return nil // nobody could tell what the times mean
	}
	data, err := json.Marshal(observations{process.Boot(), seen})
	if err != nil {
		return err
	}
	return durable.ReplaceFile(g.w.Root(), g.w.Dir(), g.observationsName(), data, 0o644)
}

// workspaceNumber returns a number for the workspace on this start of the machine, by which a process recognizes the
// claims of an earlier process that died. A copy of the workspace or of the machine has another number, so it does
// not take the claims of the original for its own, nor its ref.
func workspaceNumber(w *mailbox.Workspace, system string) (string, error) {
	const name = stateFolder + "/number"
	if err := w.MakeStateFolder(stateFolder); err != nil {
		return "", err
	}
	if _, err := w.AddFile(name, []byte(rand.Text()+"\n")); err != nil {
		return "", err
	}
	data, err := durable.ReadFile(w.Root(), w.Dir(), name, 1<<10)
	sum := sha256.Sum256([]byte(strings.Join([]string{strings.TrimSpace(string(data)), system, w.Dir()}, "\x00")))
	return hex.EncodeToString(sum[:16]), err
}

// ListClaims returns the claims of all agents and machines as of the last sync. A ref that should hold a claim and does
// not has an Err.
func (r *Repository) ListClaims(ctx context.Context) (claims []Claim, err error) {
	out, err := r.git.Run(ctx, "for-each-ref", "--format=%(refname) %(objectname) %(contents:subject)", strings.TrimSuffix(claimRefs, "/"))
	for line := range strings.Lines(string(out)) {
		ref, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		object, text, _ := strings.Cut(rest, " ")
		if c, ok := claimAt(ref, object, text); ok {
			claims = append(claims, c)
		}
	}
	return claims, err
}

// gitClaims keeps the claims on the messages of an agent in a repository and its remote. tree is the empty tree.
type gitClaims struct {
	*Repository
	agent   schema.AgentName
	options Options
	tree    string
}

func (g *gitClaims) sync(ctx context.Context) error {
	_, err := g.Sync(ctx, g.options)
	return err
}

func (g *gitClaims) isPending(ctx context.Context, id schema.ID) bool {
	entries, err := g.w.Inbox(ctx, g.agent)
	return err != nil || slices.ContainsFunc(entries, func(e mailbox.Entry) bool { return e.Message != nil && e.Message.ID == id })
}

func (g *gitClaims) commit(ctx context.Context, c Claim) (object string, err error) {
	const who = "oacp <oacp@localhost>"
	commit := git.Commit{Author: who, Authored: c.Renewed, Committer: who, Committed: c.Renewed, Text: c.text()}
	return g.git.CommitTree(ctx, g.tree, "", commit, false)
}

// pushedRefs is how many refs a push updates at most, so that the command line does not get too long.
const pushedRefs = 50

func (g *gitClaims) push(ctx context.Context, updates []git.Update) (moved []bool, err error) {
	for some := range slices.Chunk(updates, pushedRefs) {
		pushed, pushErr := g.git.Push(ctx, remoteName, some, "--no-verify")
		for i, p := range pushed {
			moved = append(moved, p.Moved)
			switch {
			case p.Refused != "" && !strings.HasPrefix(p.Refused, "[rejected]"): // the remote refused it
				refusal := g.remoteError(&git.Error{Args: []string{"push"}, Exit: git.Exit(pushErr), Stderr: some[i].Ref + ": " + p.Refused}, true)
				refusal.Claims = true
				err = refusal
			case pushErr != nil && p == git.Pushed{}: // the remote was not reached
				err = g.remoteError(pushErr, false)
			}
		}
	}
	return moved, err
}
