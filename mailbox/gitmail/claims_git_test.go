package gitmail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// newClaimMachines makes workspaces that sync with a bare repository, and claims for each. The clocks by which they
// publish times are hours apart.
func newClaimMachines(t *testing.T, machines int, lease time.Duration) (remote *git.Repository, workspaces []*mailbox.Workspace, claims []*Claims) {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	url := filepath.Join(dir, "remote.git")
	if _, err := new(git.Repository).Run(ctx, "init", "--quiet", "--bare", url); err != nil {
		t.Fatal(err)
	}
	for i := range machines {
		folder := filepath.Join(dir, fmt.Sprint("m", i))
		if _, err := project.Init(folder, project.InitOptions{Agents: []schema.AgentName{"claude", "codex"}, Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		w, err := mailbox.Open(folder, nil)
		if err == nil {
			_, err = Init(ctx, w, InitOptions{Remote: url})
			err = errors.Join(err, w.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if w, err = mailbox.Open(folder, &mailbox.Options{NoSync: true}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() }) // it was only a test
		r, err := Open(ctx, w)
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.NewClaims(ctx, "codex", lease, Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.machine = fmt.Sprint("m", i)
		c.now = func() time.Time { return time.Now().Add(time.Duration(i-1) * 9 * time.Hour) }
		if err := c.Start(ctx, func(err error) { t.Log(c.machine, "warns:", err) }); err != nil {
			t.Fatal(err)
		}
		workspaces, claims = append(workspaces, w), append(claims, c)
	}
	return &git.Repository{GitDir: url}, workspaces, claims
}

// sendClaimed sends messages to codex, and has all machines receive them.
func sendClaimed(t *testing.T, w *mailbox.Workspace, all []*Claims, count int) (wanted []Wanted) {
	t.Helper()
	for i := range count {
		receipt, err := w.Send(t.Context(), schema.Message{
			From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: fmt.Sprint("Question ", i), Body: schema.TextValue("?"),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		wanted = append(wanted, Wanted{ID: receipt.Message.ID})
	}
	for _, c := range all {
		if err := syncNow(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	return wanted
}

// claimsOn returns the machines, states and attempts of the claims on a repository.
func claimsOn(t *testing.T, remote *git.Repository) (found []string) {
	t.Helper()
	r := &Repository{git: remote}
	claims, err := r.ListClaims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		found = append(found, fmt.Sprintf("%s %s %d", c.Machine, c.State, c.Attempt))
	}
	return found
}

func wantClaims(t *testing.T, remote *git.Repository, want ...string) {
	t.Helper()
	if got := claimsOn(t, remote); !slices.Equal(got, want) {
		t.Errorf("claims on the remote: %q, want %q", got, want)
	}
}

// takeOver takes messages when the claims of others on them are over.
func takeOver(t *testing.T, c *Claims, wanted ...Wanted) int {
	t.Helper()
	for {
		for _, w := range wanted {
			if claim, until := c.Other(w.ID); claim != nil {
				<-time.After(time.Until(until))
			}
		}
		attempt, _, err := c.Take(t.Context(), wanted)
		if err == nil {
			return attempt
		}
		if !errors.Is(err, ErrElsewhere) {
			t.Fatal(err)
		}
	}
}

// TestClaimsInGit takes, loses, takes over and gives up claims on a real remote.
func TestClaimsInGit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	remote, workspaces, m := newClaimMachines(t, 3, 4*time.Second)
	wanted := sendClaimed(t, workspaces[0], m, 4)
	attempt, held, err := m[0].Take(ctx, wanted[:2])
	if err != nil || attempt != 1 {
		t.Fatal(attempt, err)
	}
	wantClaims(t, remote, "m0 working 1", "m0 ahead 0")
	if _, _, err := m[1].Take(ctx, wanted[:1]); !errors.Is(err, ErrElsewhere) {
		t.Errorf("got %v, want m0 to have the message", err)
	}

	if other, _ := m[1].Other(wanted[0].ID); other == nil || other.Machine != "m0" {
		t.Errorf("got %+v, want m0 to have the message", other)
	}

	// The machine dies, and another one takes its messages over. It does not matter that their clocks differ.
	m[0].stop()
	m[0].running.Wait()
	if attempt = takeOver(t, m[2], wanted[:2]...); attempt != 2 {
		t.Errorf("the turn after the one that was lost is number %d, want 2", attempt)
	}
	wantClaims(t, remote, "m2 working 2", "m2 ahead 0")

	// The first one comes back.
	if err := m[0].Confirm(ctx, wanted[0].ID); !errors.Is(err, ErrClaimLost) || !errors.Is(context.Cause(held), ErrClaimLost) {
		t.Errorf("confirming a lost claim: %v; the turn: %v", err, context.Cause(held))
	}
	m[0].Done(wanted[0].ID)
	m[0].Release(wanted[1].ID, 0)
	if err := m[0].settle(ctx); err != nil {
		t.Error(err)
	}
	wantClaims(t, remote, "m2 working 2", "m2 ahead 0")

	// A handled message has left the inbox when another machine has the claim, which did not know of it.
	e, err := workspaces[2].Pending(ctx, string(wanted[0].ID), "codex")
	if err == nil {
		err = workspaces[2].Acknowledge(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	m[2].Done(wanted[0].ID)
	m[2].Release(wanted[1].ID, 1)
	if err := m[2].settle(ctx); err != nil {
		t.Error(err)
	}
	wantClaims(t, remote, "m2 free 1")
	if _, _, err := m[1].Take(ctx, wanted[:1]); err != nil {
		t.Error(err)
	}
	if e, err := workspaces[1].Pending(ctx, string(wanted[0].ID), "codex"); err == nil {
		t.Errorf("%s is still pending", e.Path)
	}
	m[1].Done(wanted[0].ID)
	if attempt, _, err := m[1].Take(ctx, wanted[1:2]); err != nil || attempt != 2 {
		t.Errorf("taking a message that was given back: turn %d, %v, want turn 2", attempt, err)
	}
	if err := errors.Join(m[1].Stop(ctx), m[2].Stop(ctx)); err != nil {
		t.Error(err)
	}
	wantClaims(t, remote, "m1 free 2")
}

// TestWorkspaceNumber gives each place of a workspace a number of its own that stays.
func TestWorkspaceNumber(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "w")
	if _, err := project.Init(folder, project.InitOptions{Agents: []schema.AgentName{"claude", "codex"}, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	number := func(folder, system string) string {
		w, err := mailbox.Open(folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		number, err := workspaceNumber(w, system)
		if err != nil || len(number) != 32 {
			t.Fatalf("got %q, %v", number, err)
		}
		return number
	}
	first := number(folder, "boot 1")
	if again := number(folder, "boot 1"); again != first {
		t.Errorf("the number was %s and is %s", first, again)
	}
	elsewhere := folder + "2"
	if err := os.CopyFS(elsewhere, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	if number(elsewhere, "boot 1") == first {
		t.Error("a copy of the workspace has its number")
	}
	if number(folder, "boot 2") == first {
		t.Error("a copy of the machine has its number")
	}
}

// TestClaimsOfACopy copies a workspace whose process has a claim, and puts the copy into its place.
func TestClaimsOfACopy(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, workspaces, m := newClaimMachines(t, 1, time.Minute)
	wanted := sendClaimed(t, workspaces[0], m, 1)
	if _, _, err := m[0].Take(ctx, wanted); err != nil {
		t.Fatal(err)
	}
	original := workspaces[0].Dir()
	moved := original + "-moved"
	if err := os.CopyFS(moved, os.DirFS(original)); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{moved, original} { // as after a rename of the original
		w, err := mailbox.Open(folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		r, err := Open(ctx, w)
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.NewClaims(ctx, "codex", time.Minute, Options{})
		if err == nil {
			err = c.Start(ctx, func(err error) { t.Log(err) })
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Take(ctx, wanted); !errors.Is(err, ErrElsewhere) {
			t.Errorf("the copy in %s takes a message that a living process has: %v", folder, err)
		}
		if err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
}

// TestLeaseAcrossProcesses checks that a lease goes on where an earlier process saw the claim, or a ref that holds none, unless the
// machine has started again since.
func TestLeaseAcrossProcesses(t *testing.T) {
	t.Parallel()
	const lease = time.Minute
	ctx := t.Context()
	remote, workspaces, m := newClaimMachines(t, 2, lease)
	wanted := sendClaimed(t, workspaces[0], m, 2)
	if _, _, err := m[0].Take(ctx, wanted[:1]); err != nil {
		t.Fatal(err)
	}
	m[0].stop()
	m[0].running.Wait()
	blob, err := remote.RunInput(ctx, strings.NewReader("x"), "hash-object", "-w", "--stdin")
	if err == nil {
		_, err = remote.Run(ctx, "update-ref", claimRef("codex", wanted[1].ID), strings.TrimSpace(string(blob)))
	}
	if err = errors.Join(err, syncNow(ctx, m[1]), m[1].Stop(ctx)); err != nil {
		t.Fatal(err)
	}
	r := m[1].store.(*gitClaims).Repository
	next := func(goesOn bool) {
		t.Helper()
		begun := time.Now()
		c, err := r.NewClaims(ctx, "codex", lease, Options{})
		if err == nil {
			err = c.Start(ctx, func(err error) { t.Log(err) })
		}
		if err = errors.Join(err, c.Stop(ctx)); err != nil {
			t.Fatal(err)
		}
		for _, w := range wanted {
			if claim, until := c.Other(w.ID); claim == nil || until.Before(begun.Add(lease)) != goesOn {
				t.Errorf("the claim %+v holds until %v after the start of this process; it goes on: %t", claim, until.Sub(begun), goesOn)
			}
		}
	}
	next(true)
	path := filepath.Join(workspaces[1].Dir(), filepath.FromSlash(stateFolder), "claims-codex.json")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(data), process.Boot(), "another", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	next(false)
	next(true)
}

// TestHostileClaims puts refs that are not claims in the place of claims.
func TestHostileClaims(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	remote, workspaces, m := newClaimMachines(t, 1, 4*time.Second)
	wanted := sendClaimed(t, workspaces[0], m, 3)
	blob, err := remote.RunInput(ctx, strings.NewReader(strings.Repeat("x", schema.MaxFileSize+1)), "hash-object", "-w", "--stdin")
	if err != nil {
		t.Fatal(err)
	}
	tip, err := remote.Run(ctx, "rev-parse", "refs/heads/oacp-3")
	if err != nil {
		t.Fatal(err)
	}
	for ref, object := range map[string]string{
		claimRef("codex", wanted[0].ID): string(blob), claimRef("codex", wanted[1].ID): string(tip),
		claimRefs + "codex/no-message": string(blob), claimRefs + "other": string(tip),
	} {
		if _, err := remote.Run(ctx, "update-ref", ref, strings.TrimSpace(object)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := m[0].Take(ctx, wanted[2:]); err != nil {
		t.Errorf("a ref that is not a claim is in the way: %v", err)
	}
	claims, err := m[0].store.ListClaims(ctx)
	bad := 0
	for _, c := range claims {
		if c.Err != nil {
			bad++
		}
	}
	if err != nil || bad != 2 || len(claims) != 3 {
		t.Errorf("found %d refs, of which %d are not claims, %v; want 3 and 2", len(claims), bad, err)
	}
	for _, w := range wanted[:2] {
		if attempt := takeOver(t, m[0], w); attempt != 1 {
			t.Errorf("the turn is number %d, want 1", attempt)
		}
	}
	if err := m[0].Stop(ctx); err != nil {
		t.Error(err)
	}
}

// TestRefusedClaims pushes to a remote that forbids claims, or has a ref in their way, and then to one
// that takes them.
func TestRefusedClaims(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	remote, workspaces, m := newClaimMachines(t, 1, time.Minute)
	wanted := sendClaimed(t, workspaces[0], m, 1)
	git := func(args ...string) {
		t.Helper()
		if _, err := remote.Run(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(words string) {
		t.Helper()
		_, _, err := m[0].Take(ctx, wanted)
		if e, ok := errors.AsType[*RemoteError](err); !ok || !e.Claims || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want what git says", err)
		}
	}
	git("config", "receive.hideRefs", "refs/oacp")
	refused("deny updating a hidden ref")
	git("config", "--unset", "receive.hideRefs")
	git("update-ref", "refs/oacp/claims/codex", "refs/heads/oacp-3")
	refused("remote rejected")
	git("update-ref", "-d", "refs/oacp/claims/codex")
	if attempt, _, err := m[0].Take(ctx, wanted); attempt != 1 || err != nil {
		t.Errorf("turn %d, %v, want the first one", attempt, err)
	}
	if err := m[0].Stop(ctx); err != nil {
		t.Error(err)
	}
}
