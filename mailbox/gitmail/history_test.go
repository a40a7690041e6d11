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
