package validate

import (
	"context"
	"os"
	"strings"
	"testing"
)

// link makes symbolic links, given as a map from names to targets.
func link(t *testing.T, links map[string]string) {
	t.Helper()
	for name, to := range links {
		if err := os.Symlink(to, name); err != nil {
			t.Skip(err)
		}
	}
}

// TestFilesLinks checks that no link found in a folder is read. A link that is an argument may lead anywhere.
func TestFilesLinks(t *testing.T) {
	tree(t, map[string]string{"in/a.yaml": message("aaaa"), "in/er/deep.yaml": message("bbbb"), "elsewhere/b.yaml": message("cccc")})
	link(t, map[string]string{
		"in/link.yaml": "../elsewhere/b.yaml", "in/loop.yaml": "loop.yaml", "in/gone.yaml": "nowhere",
		"in/absolute.yaml": "/etc/passwd", "in/beside.yaml": "er/deep.yaml",
		"in/er/up.yaml": "../a.yaml",
		"in/up":         "..", "in/folder.yaml": "../elsewhere", "whole": "in", "within": "in/er",
	})
	want := `in/a.yaml
in/absolute.yaml file-unreadable
in/beside.yaml file-unreadable
in/er/deep.yaml
in/er/up.yaml file-unreadable
in/folder.yaml file-unreadable
in/gone.yaml file-unreadable
in/link.yaml file-unreadable
in/loop.yaml file-unreadable`
	tests := []struct {
		name  string
		paths []string
		want  string
	}{
		{"a folder", []string{"in"}, want},
		{"a folder that is a link", []string{"whole"}, strings.ReplaceAll(want, "in/", "whole/")},
		{"a link that is named", []string{"in/link.yaml"}, "in/link.yaml"},
		{"a link through a folder that is one", []string{"in/up/in/link.yaml"}, "in/up/in/link.yaml"},
	}
	for _, test := range tests {
		if got := lines(t, nil, test.paths...); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

// TestFilesShowNothingBehindLinks checks links in mailboxes. A finding shows lines of the file, so
// a link that a stranger put into a mailbox must not choose the file.
func TestFilesShowNothingBehindLinks(t *testing.T) {
	const secret = "token-of-somebody"
	tree(t, map[string]string{".git/config": "[remote]\n\turl = " + secret + "\n", "agents/codex/inbox/a.yaml": message("aaaa")})
	link(t, map[string]string{"agents/codex/inbox/b.yaml": "../../../.git/config"})
	for _, path := range []string{".", "agents", "agents/codex/inbox"} {
		result, err := Files(context.Background(), []string{path}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := result.WriteText(&out, false); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Contains(got, secret) || !strings.Contains(got, "b.yaml: error: a link in a folder is not followed") {
			t.Errorf("%s: got\n%s\nwant the link refused", path, got)
		}
		for _, err := range ReadFiles([]string{path}, nil) {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: read %v", path, err)
			}
		}
	}
}
