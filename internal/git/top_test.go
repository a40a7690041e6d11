package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
)

func TestMainFolder(t *testing.T) {
	for name, test := range map[string]struct {
		git    string // the file .git; "" for none
		common string // the file commondir in the folder git/worktrees/x; "" for none
		want   string
	}{
		"no repository":              {want: "top"},
		"linked worktree":            {"gitdir: ../main/.git/worktrees/x\n", "../..\n", "main"},
		"linked worktree on Windows": {"gitdir: ../main/.git/worktrees/x\r\n", "../..\r\n", "main"},
		"submodule":                  {"gitdir: ../main/.git/worktrees/x\n", "", "top"},
		"bare beside its worktrees":  {"gitdir: ../main/.git/worktrees/x\n", "/a/b/.bare\n", "/a/b"},
		"bare elsewhere":             {"gitdir: ../main/.git/worktrees/x\n", "/a/b.git\n", "top"},
		"no path":                    {"gitdir: \n", "../..\n", "top"},
		"not a file of git":          {"main\n", "../..\n", "top"},
		"missing folder":             {"gitdir: /nowhere\n", "../..\n", "top"},
		"long":                       {"gitdir: " + strings.Repeat("x", 8192), "../..\n", "top"},
		"main worktree":              {"directory", "", "top"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			top := filepath.Join(dir, "top")
			if err := os.MkdirAll(top, 0o755); err != nil {
				t.Fatal(err)
			}
			switch test.git {
			case "":
			case "directory":
				check.WriteFile(t, filepath.Join(top, ".git", "HEAD"), "")
			default:
				check.WriteFile(t, filepath.Join(top, ".git"), test.git)
			}
			if test.common != "" {
				check.WriteFile(t, filepath.Join(dir, "main/.git/worktrees/x/commondir"), test.common)
			}
			want := test.want
			if !filepath.IsAbs(want) {
				want = filepath.Join(dir, want)
			}
			if got := MainFolder(top); got != want {
				t.Errorf("the folder is %s, want %s", got, want)
			}
		})
	}
}
