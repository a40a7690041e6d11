package gitmail

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// NewClaims returns claims on the messages of an agent. It needs no remote that answers. Another process
// must not work the same inbox of this workspace between Start and Stop.
func (r *Repository) NewClaims(ctx context.Context, o ClaimOptions) (*Claims, error) {
	if r.settings.URL == "" {
		return nil, ErrNoRemote
	}
	refs, err := newGitRefs(ctx, r)
	if err != nil {
		return nil, err
	}
	number, err := workspaceNumber(r.w)
	if err != nil {
		return nil, err
	}
	c := newClaims(o, refs, number)
	c.sync = func(ctx context.Context) error {
		_, err := r.Sync(ctx, o.Sync)
		return err
	}
	c.pending = func(file string) bool {
		_, err := r.w.Root().Lstat(mailbox.BoxName(o.Agent, mailbox.Inbox) + "/" + file)
		return !mailbox.IsGone(err)
	}
	c.inbox = func(ctx context.Context) (map[schema.ID]bool, error) {
		entries, err := r.w.Inbox(ctx, o.Agent)
		ids := make(map[schema.ID]bool, len(entries))
		for _, e := range entries {
			if e.Message != nil {
				ids[e.Message.ID] = true
			}
		}
		return ids, err
	}
	return c, nil
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
