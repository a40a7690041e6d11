package validate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/oacp-go/oacp/schema"
)

// tree makes a folder with the files, whose names may include folders, and makes it the current
// one.
func tree(t testing.TB, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// lines returns the findings of a run, and the names of files without any.
func lines(t *testing.T, options *FilesOptions, paths ...string) string {
	t.Helper()
	result, err := Files(context.Background(), paths, options)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range result.Files {
		name := filepath.ToSlash(file.Name)
		if len(file.Diagnostics) == 0 {
			out = append(out, name)
		}
		for _, d := range file.Diagnostics {
			if d.File != file.Name {
				t.Errorf("finding of %s in the file %s", d.File, file.Name)
			}
			out = append(out, name+" "+string(d.Rule))
		}
	}
	return strings.Join(out, "\n")
}

// message returns a valid message whose id ends in the four characters.
func message(rand string) string {
	return with("id: msg-20260313T1430Z-claude-" + rand)
}

func TestFilesWorkspace(t *testing.T) {
	tree(t, map[string]string{
		"workspace.json":                              "{}",
		"notes.yaml":                                  "not: a message",
		"packets/review/p.yaml":                       "not: a message",
		"state/outgoing/x.yaml":                       "not: a message",
		"agents/claude/agent_card.yaml":               "not: a message",
		"agents/claude/trust/allowed_signers.yaml":    "not: a message",
		"agents/claude/outbox/a.yaml":                 message("aaaa"),
		"agents/codex/inbox/a.yaml":                   message("aaaa"),
		"agents/codex/inbox/b.yaml":                   message("bbbb"),
		"agents/codex/inbox/.hidden.yaml":             "not: a message",
		"agents/codex/inbox/notes.txt":                "not a message",
		"agents/codex/archive/2026/c.yaml":            message("cccc"),
		"agents/codex/dead_letter/d.yaml":             message("P9") + "bad: field\n",
		"agents/codex/dead_letter/d.yaml.reason.json": "{}",
		"agents/state/inbox/e.yaml":                   message("eeee"),
		"agents/new/config.yaml":                      "not: a message",
	})
	inAgents := func(prefix string) string {
		want := "agents/claude/outbox/a.yaml\nagents/codex/archive/2026/c.yaml\nagents/codex/dead_letter/d.yaml id-rand\nagents/codex/dead_letter/d.yaml unknown-field\n"
		want += "agents/codex/inbox/a.yaml\nagents/codex/inbox/b.yaml\nagents/state/inbox/e.yaml"
		return strings.ReplaceAll(want, "agents/", prefix)
	}
	for path, prefix := range map[string]string{".": "agents/", "agents": "agents/", "./agents/": "agents/"} {
		if got, want := lines(t, nil, path), inAgents(prefix); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", path, got, want)
		}
	}
	if got, want := lines(t, nil, "agents/codex"), strings.Join(strings.Split(inAgents("agents/"), "\n")[1:6], "\n"); got != want {
		t.Errorf("agents/codex:\n%s\nwant\n%s", got, want)
	}
	if got, want := lines(t, nil, "agents/codex/inbox", "agents/state/inbox", "agents/codex/inbox/../inbox", "agents/codex/inbox/b.yaml"), "agents/codex/inbox/a.yaml\nagents/codex/inbox/b.yaml\nagents/state/inbox/e.yaml"; got != want {
		t.Errorf("the same folder in three ways:\n%s\nwant\n%s", got, want)
	}
	if got := lines(t, nil, "agents/claude/agent_card.yaml"); !strings.Contains(got, string(ruleUnknownField)) {
		t.Errorf("a named file is treated as a message: got %s", got)
	}
}

// TestFilesOfAgentsWithConfusingNames checks that an agent named like a folder of the workspace
// does not hide another agent.
func TestFilesOfAgentsWithConfusingNames(t *testing.T) {
	tree(t, map[string]string{
		"agents/agents/inbox/a.yaml":         message("aaaa"),
		"agents/agents/agent_card.yaml":      "not: a message",
		"agents/claude/inbox/b.yaml":         message("bbbb"),
		"agents/inbox/inbox/c.yaml":          message("cccc"),
		"agents/inbox/status.yaml":           "not: a message",
		"agents/outbox/outbox/d.yaml":        message("dddd"),
		"agents/state/archive/e.yaml":        message("eeee"),
		"agents/state/state/packets/no.yaml": "not: a message",
	})
	want := strings.Join([]string{
		"agents/agents/inbox/a.yaml", "agents/claude/inbox/b.yaml", "agents/inbox/inbox/c.yaml",
		"agents/outbox/outbox/d.yaml", "agents/state/archive/e.yaml",
	}, "\n")
	for _, path := range []string{".", "agents"} {
		if got := lines(t, nil, path); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", path, got, want)
		}
	}
}

// TestFilesOfOneAgentWithConfusingName checks that a mailbox and its folders can be arguments,
// whatever the name of the agent.
func TestFilesOfOneAgentWithConfusingName(t *testing.T) {
	for _, agent := range []string{"agents", "inbox", "outbox", "archive", "state", "codex"} {
		tree(t, map[string]string{
			"agents/" + agent + "/agent_card.yaml":       "not: a message",
			"agents/" + agent + "/trust/signers.yaml":    "not: a message",
			"agents/" + agent + "/inbox/a.yaml":          message("aaaa"),
			"agents/" + agent + "/archive/2026/b.yaml":   message("bbbb"),
			"agents/" + agent + "/dead_letter/c.yaml":    message("cccc"),
			"agents/" + agent + "/outbox/d.yaml":         message("dddd"),
			"agents/" + agent + "/outbox/.d.yaml.reason": "not: a message",
		})
		all := []string{"archive/2026/b.yaml", "dead_letter/c.yaml", "inbox/a.yaml", "outbox/d.yaml"}
		tests := map[string][]string{"": all, "archive": all[:1], "archive/2026": all[:1], "dead_letter": all[1:2], "inbox": all[2:3], "outbox": all[3:]}
		for below, found := range tests {
			var want []string
			for _, name := range found {
				want = append(want, "agents/"+agent+"/"+name)
			}
			folder := filepath.Join("agents", agent, below)
			if got := lines(t, nil, folder); got != strings.Join(want, "\n") {
				t.Errorf("%s: got %q, want %q", folder, got, want)
			}
		}
	}
}

func TestFilesDuplicates(t *testing.T) {
	tree(t, map[string]string{
		"same/a.yaml":     message("aaaa"),
		"same/b.yaml":     message("aaaa"),
		"same/c.yaml":     message("aaaa"),
		"copies/1/a.yaml": message("bbbb"),
		"copies/2/a.yaml": message("bbbb"),
		"differ/1/a.yaml": message("cccc"),
		"differ/2/a.yaml": message("cccc"),
		"differ/3/a.yaml": message("cccc") + "# changed\n",
	})
	want := `same/a.yaml duplicate-id
same/b.yaml duplicate-id
same/c.yaml duplicate-id
copies/1/a.yaml
copies/2/a.yaml
differ/1/a.yaml duplicate-id
differ/2/a.yaml duplicate-id
differ/3/a.yaml duplicate-id`
	if got := lines(t, nil, "same", "copies", "differ"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	result, err := Files(context.Background(), []string{"differ"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := result.Files[0].Diagnostics[0]
	if first.Line != 1 || first.Column != 5 || !strings.Contains(first.Message, filepath.FromSlash("differ/3/a.yaml")) {
		t.Errorf("got %+v, want the place of the id and the name of the other file", first)
	}
}

func TestFilesPaths(t *testing.T) {
	tree(t, map[string]string{
		"a.yaml":         message("aaaa"),
		"b.txt":          message("bbbb"),
		"x[1].yaml":      message("cccc"),
		"empty/.keep":    "",
		"large.yaml":     strings.Repeat("#", schema.MaxFileSize+1),
		"deep/er/d.yaml": message("dddd"),
	})
	tests := []struct{ path, want string }{
		{"a.yaml", "a.yaml"},
		{"b.txt", "b.txt"},
		{"x[1].yaml", "x[1].yaml"},
		{"?.yaml", "?.yaml file-unreadable"},
		{"empty", ""},
		{"deep", "deep/er/d.yaml"},
		{"large.yaml", "large.yaml file-size"},
		{"missing.yaml", "missing.yaml file-unreadable"},
		{"a.yaml/b", "a.yaml/b file-unreadable"},
		{"*.none", "*.none file-unreadable"},
		{"", " file-unreadable"},
		{"a\x00b", "a\x00b file-unreadable"},
		{"-", "<stdin> file-unreadable"},
	}
	for _, test := range tests {
		if got := lines(t, nil, test.path); got != test.want {
			t.Errorf("%q: got %q, want %q", test.path, got, test.want)
		}
	}
}

func TestFilesStdin(t *testing.T) {
	tests := []struct {
		name  string
		stdin *FilesOptions
		want  string
	}{
		{"message", &FilesOptions{Stdin: iotest.OneByteReader(strings.NewReader(message("aaaa")))}, "<stdin>"},
		{"nothing", &FilesOptions{Stdin: strings.NewReader("")}, "<stdin> file-empty"},
		{"endless", &FilesOptions{Stdin: endless{}}, "<stdin> file-size"},
		{"broken", &FilesOptions{Stdin: iotest.ErrReader(errors.New("gone"))}, "<stdin> file-unreadable"},
	}
	for _, test := range tests {
		if got := lines(t, test.stdin, "-", "-"); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	return len(p), nil
}

func TestFilesUnreadable(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("this user may read everything, or permissions work differently here")
	}
	tree(t, map[string]string{"locked/a.yaml": message("aaaa"), "b.yaml": message("bbbb")})
	for _, name := range []string{"locked", "b.yaml"} {
		if err := os.Chmod(name, 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(name, 0o755)
	}
	if got, want := lines(t, nil, "."), "b.yaml file-unreadable\nlocked file-unreadable"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFileName(t *testing.T) {
	tests := []struct{ name, want string }{
		{"20260313T1430Z_claude_task_request.yaml", ""},
		{"20260313T1430Z_claude_task_request_a8f3.yaml", ""},
		{"20260313143059_claude_task_request_00ff_x.yaml", ""},
		{"hello.yaml", ""},
		{"20260313T1430Z_gemini_task_request.yaml", "2:7 warning file-name from"},
		{"20260313T1430Z_claude_question.yaml", "4:7 warning file-name type"},
		{"20260313T1431Z_claude_task_request.yaml", "6:17 warning file-name created_at_utc"},
	}
	for _, test := range tests {
		_, findings := Bytes(filepath.Join("inbox", test.name), []byte(with()))
		if got := summary(findings); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// many makes a folder with messages and returns how many, every tenth of them bad.
func many(t testing.TB, n int) {
	files := make(map[string]string, n)
	for i := range n {
		text := message(fmt.Sprintf("%06d", i))
		if i%10 == 9 {
			text = strings.Replace(text, "P2", "P9", 1)
		}
		files[fmt.Sprintf("inbox/%06d.yaml", i)] = text
	}
	tree(t, files)
}

func TestFilesOrderAndProgress(t *testing.T) {
	many(t, 1000)
	last := 0
	progress := func(done, total int) {
		if done <= last || total != 1000 {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	}
	first := lines(t, &FilesOptions{Progress: progress}, ".")
	if last != 1000 {
		t.Errorf("progress ended at %d of 1000", last)
	}
	if n := strings.Count(first, string(rulePriority)); n != 100 {
		t.Errorf("%d bad files, want 100", n)
	}
	for range 5 {
		if again := lines(t, nil, "."); again != first {
			t.Fatal("two runs give different results")
		}
	}
}

func TestFilesCancelled(t *testing.T) {
	many(t, 10)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if result, err := Files(ctx, []string{"."}, nil); !errors.Is(err, context.Canceled) || result != nil {
		t.Errorf("got %v, %v, want the error of the context", result, err)
	}
}

func TestCount(t *testing.T) {
	many(t, 20)
	result, err := Files(context.Background(), []string{"."}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := result.Count(), (Count{Files: 20, Invalid: 2, Errors: 2}); !reflect.DeepEqual(got, want) || !result.HasErrors() {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func BenchmarkFiles(b *testing.B) {
	const n = 10_000
	files := make(map[string]string, n)
	for i := range n {
		files[fmt.Sprintf("inbox/%06d.yaml", i)] = strings.Replace(typical, "a8f3", fmt.Sprintf("%06d", i), 1)
	}
	tree(b, files)
	for b.Loop() {
		result, err := Files(context.Background(), []string{"inbox"}, nil)
		if err != nil || result.HasErrors() || len(result.Files) != n {
			b.Fatal(err, result.Count())
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "messages/s")
}
