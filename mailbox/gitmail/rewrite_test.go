package gitmail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/git"
)

// newHistory makes a bare repository that no setting of the user reaches.
func newHistory(t *testing.T, format string) *git.Repository {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g := &git.Repository{
		GitDir: filepath.Join(dir, "repository.git"),
		Env:    []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + config},
	}
	runGit(t, g, "init", "--quiet", "--bare", "--object-format="+format)
	return g
}

// runGit runs git and returns what it prints, without the space around it.
func runGit(t *testing.T, g *git.Repository, args ...string) string {
	t.Helper()
	return feedGit(t, g, "", args...)
}

func feedGit(t *testing.T, g *git.Repository, input string, args ...string) string {
	t.Helper()
	out, err := g.RunInput(t.Context(), strings.NewReader(input), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// noon is the time of the nth commit of a test.
func noon(n int) time.Time { return time.Date(2026, 10, n, 12, 0, 0, 0, time.UTC) }

// addCommit commits a new file on the parents, with the author's and the committer's clock at the time. It
// returns the commit.
func addCommit(t *testing.T, g *git.Repository, name, message string, at time.Time, parents ...string) string {
	t.Helper()
	blob := feedGit(t, g, name+"\n", "hash-object", "-w", "--stdin")
	entries := fmt.Sprintf("100644 blob %s\t%s\n", blob, name)
	if len(parents) > 0 {
		entries += runGit(t, g, "ls-tree", parents[0]) + "\n"
	}
	tree := feedGit(t, g, entries, "mktree")
	args := []string{"commit-tree", tree}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	dated := *g
	dated.Env = append(slices.Clone(g.Env),
		fmt.Sprintf("GIT_COMMITTER_DATE=%d +0530", at.Unix()), fmt.Sprintf("GIT_AUTHOR_DATE=%d -0330", at.Unix()-60),
		"GIT_AUTHOR_NAME=Bob <b", "GIT_AUTHOR_EMAIL=bob@example.com")
	return feedGit(t, &dated, message, args...)
}

// describe is what a rewrite must keep of a commit.
const describe = "--format=%T %an %ae %ad %cn %ce %cd %B"

// signs is a program that signs as gpg does.
const signs = `#!/bin/sh
echo "[GNUPG:] SIG_CREATED D 1 8 00 1 0123456789ABCDEF" >&2
cat >/dev/null
printf -- '-----BEGIN PGP SIGNATURE-----\n\nabcd\n-----END PGP SIGNATURE-----\n'
`

func TestRewriteJoinsWhatIsOld(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256", "signed"} {
		t.Run(format, func(t *testing.T) {
			signed := format == "signed"
			if signed {
				format = "sha1"
			}
			g := newHistory(t, format)
			program := filepath.Join(t.TempDir(), "gpg")
			if err := os.WriteFile(program, []byte(signs), 0o755); err != nil {
				t.Fatal(err)
			}
			g.Config = append(g.Config, "gpg.program="+program)
			r := &Repository{git: g, settings: Settings{sign: signed}}
			var commits []string
			var tip string
			for n := 1; n <= 9; n++ {
				message := fmt.Sprintf("claude → codex: %d\n\nid-%d\n", n, n)
				if n == 8 {
					message = "  no line ends it \n\n\n\x1b"
				}
				tip = addCommit(t, g, fmt.Sprintf("file%d", n), message, noon(n), commits[max(0, n-2):]...)
				commits = append(commits, tip)
			}
			got, err := r.rewrite(t.Context(), tip, noon(6))
			if err != nil {
				t.Fatal(err)
			}
			if got.Before != 9 || got.After != 5 {
				t.Errorf("counts %d before and %d after, want 9 and 5", got.Before, got.After)
			}
			if now := runGit(t, g, "rev-list", "--count", got.Commit); now != "5" {
				t.Errorf("the new history has %s commits, want 5", now)
			}
			for n := range 4 {
				was, is := runGit(t, g, "log", "-1", describe, fmt.Sprintf("%s~%d", tip, n)), runGit(t, g, "log", "-1", describe, fmt.Sprintf("%s~%d", got.Commit, n))
				if was != is {
					t.Errorf("commit %d from the tip was\n%q\nand is\n%q", n, was, is)
				}
			}
			root := got.Commit + "~4"
			if was, is := runGit(t, g, "rev-parse", commits[4]+"^{tree}"), runGit(t, g, "rev-parse", root+"^{tree}"); was != is {
				t.Errorf("the first commit has tree %s, want %s", is, was)
			}
			want := "Ada <ada@example.com> 2026-10-05T17:30:00+05:30 5 commits before 2026-10-06"
			if is := runGit(t, g, "log", "-1", "--format=%an <%ae> %cI %s", root); is != want {
				t.Errorf("the first commit is %q, want %q", is, want)
			}
			if body := runGit(t, g, "log", "-1", "--format=%b", root); !strings.Contains(body, commits[4]) {
				t.Errorf("the first commit says %q, want the name of the last old one, %s", body, commits[4])
			}
			signatures := strings.Count(runGit(t, g, "log", "--format=raw", got.Commit), "\ngpgsig")
			if want := map[bool]int{true: 5}[signed]; signatures != want {
				t.Errorf("%d commits are signed, want %d", signatures, want)
			}
			again, err := r.rewrite(t.Context(), got.Commit, noon(6))
			if want := (Squashed{Commit: got.Commit, Before: 5, After: 5}); err != nil || again != want {
				t.Errorf("rewriting again: %+v, %v; want %+v", again, err, want)
			}
			runGit(t, g, "fsck", "--strict", "--no-dangling")
		})
	}
}

func TestRewriteWithoutOldOrNewCommits(t *testing.T) {
	t.Parallel()
	g := newHistory(t, "sha1")
	one := addCommit(t, g, "a", "a", noon(1))
	two := addCommit(t, g, "b", "b", noon(2), one)
	for _, c := range []struct {
		name          string
		tip           string
		before        time.Time
		commits, left int
	}{
		{"all are new", two, noon(1), 2, 2},
		{"one is old", two, noon(2), 2, 2},
		{"all are old", two, noon(3), 2, 1},
		{"one commit", one, noon(3), 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := (&Repository{git: g}).rewrite(t.Context(), c.tip, c.before)
			if err != nil {
				t.Fatal(err)
			}
			if got.Before != c.commits || got.After != c.left || (got.Commit == c.tip) != (c.commits == c.left) {
				t.Errorf("got %+v of tip %s, want %d commits before and %d after", got, c.tip, c.commits, c.left)
			}
		})
	}
}

// TestRewriteTakesABeginning checks that odd clocks make no hole in the history.
func TestRewriteTakesABeginning(t *testing.T) {
	t.Parallel()
	g := newHistory(t, "sha1")
	tip := addCommit(t, g, "0", "0", noon(1))
	for n, date := range []int{2, 20, 3, 4, 21} {
		tip = addCommit(t, g, fmt.Sprint(n+1), fmt.Sprint(n+1), noon(date), tip)
	}
	got, err := (&Repository{git: g}).rewrite(t.Context(), tip, noon(10))
	if err != nil {
		t.Fatal(err)
	}
	if subjects := runGit(t, g, "log", "--reverse", "--format=%s", got.Commit); subjects != "2 commits before 2026-10-10\n2\n3\n4\n5" {
		t.Errorf("the new history is\n%s", subjects)
	}
}

// TestRewriteOfAMerge checks that what somebody merged by hand stays in the tree.
func TestRewriteOfAMerge(t *testing.T) {
	t.Parallel()
	g := newHistory(t, "sha1")
	one := addCommit(t, g, "a", "a", noon(1))
	two := addCommit(t, g, "b", "b", noon(2), one)
	side := addCommit(t, g, "side", "side", noon(3), one)
	merge := addCommit(t, g, "merged", "merge", noon(4), two, side)
	tip := addCommit(t, g, "c", "c", noon(5), merge)
	got, err := (&Repository{git: g}).rewrite(t.Context(), tip, noon(3))
	if err != nil {
		t.Fatal(err)
	}
	if subjects := runGit(t, g, "log", "--reverse", "--format=%s", got.Commit); subjects != "2 commits before 2026-10-03\nmerge\nc" {
		t.Errorf("the new history is\n%s", subjects)
	}
}

func TestRewriteRefusesAShallowHistory(t *testing.T) {
	t.Parallel()
	g := newHistory(t, "sha1")
	tip := addCommit(t, g, "b", "b", noon(2), addCommit(t, g, "a", "a", noon(1)))
	if err := os.WriteFile(filepath.Join(g.GitDir, "shallow"), []byte(tip+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := (&Repository{git: g}).rewrite(t.Context(), tip, noon(9)); err != ErrShallow {
		t.Errorf("got %+v, %v; want %v", got, err, ErrShallow)
	}
}

// TestRewriteKeepsEncodings checks that a message in another encoding stays as it is, and that the
// signature of a commit that changed is left out.
func TestRewriteKeepsEncodings(t *testing.T) {
	t.Parallel()
	g := newHistory(t, "sha1")
	one := addCommit(t, g, "a", "a", noon(1))
	two := addCommit(t, g, "b", "b", noon(2), one)
	tree := runGit(t, g, "rev-parse", two+"^{tree}")
	const who = "\xc4da <ada@example.com> 1791115200 +0000"
	object := "tree " + tree + "\nparent " + two + "\nauthor " + who + "\ncommitter " + who + "\nencoding ISO-8859-1\n" +
		"gpgsig -----BEGIN PGP SIGNATURE-----\n \n tree no header\n -----END PGP SIGNATURE-----\n\nGr\xfc\xdfe\x00\n"
	tip := feedGit(t, g, object, "hash-object", "-w", "--literally", "-t", "commit", "--stdin")
	got, err := (&Repository{git: g}).rewrite(t.Context(), tip, noon(3))
	if err != nil {
		t.Fatal(err)
	}
	want := "tree " + tree + "\nparent " + runGit(t, g, "rev-parse", got.Commit+"^") + "\nauthor " + who + "\ncommitter " + who +
		"\nencoding ISO-8859-1\n\nGr\xfc\xdfe\x00"
	if is := runGit(t, g, "cat-file", "commit", got.Commit); is != want {
		t.Errorf("the commit is\n%q\nwant\n%q", is, want)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{2: "2", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}
