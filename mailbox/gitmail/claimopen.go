package gitmail

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
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
	w := r.w
	number, err := workspaceNumber(w)
	if err != nil {
		return nil, err
	}
	c := newClaims(o, refs, number)
	c.sync = func(ctx context.Context) error {
		_, err := r.Sync(ctx, o.Sync)
		return err
	}
	c.pending = func(file string) (bool, error) {
		_, err := w.Root().Lstat("agents/" + string(o.Agent) + "/" + string(mailbox.Inbox) + "/" + file)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	c.inbox = func(ctx context.Context) (map[schema.ID]bool, error) {
		entries, err := w.List(ctx, o.Agent, mailbox.Inbox)
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
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	return &Claims{
		agent: o.Agent, lease: o.Lease, machine: hostName(), workspace: workspace, process: randomNumber(),
		refs: refs, wall: time.Now, warn: func(error) {},
		changed: make(chan struct{}, 1), renewals: make(chan struct{}, 1), ends: make(chan struct{}, 1),
		taking: make(semaphore, 1), pushing: make(semaphore, 1),
		held: make(map[schema.ID]*heldClaim), seen: make(map[schema.ID]*sighting), strange: make(map[string]string),
	}
}

func randomNumber() string {
	raw := make([]byte, randomSize)
	_, _ = rand.Read(raw) // it never fails
	return hex.EncodeToString(raw)
}

// workspaceNumber returns the random number of a workspace on this machine, and makes one if there is none.
// By this number a process recognizes the claims of an earlier process that died.
func workspaceNumber(w *mailbox.Workspace) (string, error) {
	const name = stateFolder + "/number"
	data, err := durable.ReadFile(w.Root(), w.Dir(), name, 1<<10)
	if number := strings.TrimSpace(string(data)); err == nil && isRandom(number) {
		return numberHere(number, w.Dir()), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := w.MakeStateFolder(stateFolder); err != nil {
		return "", err
	}
	number := randomNumber()
	return numberHere(number, w.Dir()), durable.ReplaceFile(w.Root(), w.Dir(), name, []byte(number+"\n"), 0o644)
}

// numberHere returns the number of a workspace in a folder of this machine. A copy elsewhere has another
// one, so that it does not take the claims of the original for its own.
func numberHere(number, dir string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{number, hostName(), dir}, "\x00")))
	return hex.EncodeToString(sum[:randomSize])
}

// ListClaims returns the claims of all agents and machines as of the last sync, including refs that hold
// no claim.
func (r *Repository) ListClaims(ctx context.Context) ([]Claim, error) {
	return (&gitRefs{r: r}).local(ctx, claimRefs)
}
