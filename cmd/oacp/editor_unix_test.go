//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/failure"
)

// newWriter returns a session of a person whose editor is the shell script. The temporary files of
// the session are in the folder.
func newWriter(t *testing.T, script string) (c *session, temporary string) {
	t.Helper()
	c = newSession(t, "a,b")
	temporary = t.TempDir()
	t.Setenv("TMPDIR", temporary)
	editor := filepath.Join(t.TempDir(), "my editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.InTerminal, c.ErrTerminal = true, true
	c.env["EDITOR"] = "'" + editor + "' --flag"
	return c, temporary
}

// kept returns the contents of the files in a folder.
func kept(t *testing.T, folder string) (texts []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

var question = []string{"send", "--from", "a", "--to", "b", "--type", "question", "--subject", "Which port?"}

func TestEditor(t *testing.T) {
	// The editor puts a text in front of what is there.
	c, temporary := newWriter(t, `[ "$1" = --flag ] && cp "$2" "$2.seen" && { printf '# A heading\n\nThe usual one?\n\n'; cat "$2.seen"; } > "$2"`)
	if out := c.must(t, question...); !strings.HasPrefix(out, "sent ") {
		t.Errorf("printed %q, want that it is sent", out)
	}
	if out := c.must(t, "read", "--json", sentID(t, c)); !strings.Contains(out, `"body": "# A heading\n\nThe usual one?\n"`) {
		t.Errorf("the message is %s\nwant what was written, with its heading", out)
	}
	files := kept(t, temporary)
	if len(files) != 1 || !strings.Contains(files[0], "# A question from a to b: Which port?") {
		t.Errorf("the editor saw %q, want what the message is, and the file itself removed", files)
	}
}

// sentID returns the id of the only message in the inbox of b.
func sentID(t *testing.T, c *session) string {
	t.Helper()
	_, rest, _ := strings.Cut(c.must(t, "inbox", "--agent", "b", "--json"), `"id": "`)
	id, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatal("the inbox of b is empty")
	}
	return id
}

func TestEditorCancelled(t *testing.T) {
	for _, script := range []string{"true", `: > "$2"`, `printf ' \n' > "$2"`, "exit 1"} {
		c, temporary := newWriter(t, script)
		if exit := c.run(t.Context(), question...); exit != failure.ExitFailed {
			t.Errorf("%s: exit status %d, want %d", script, exit, failure.ExitFailed)
		}
		if message := c.stderr.String(); !strings.Contains(message, "no text was written, so nothing is sent") && !strings.Contains(message, "exit status 1") {
			t.Errorf("%s: standard error is %q, want why nothing is sent", script, message)
		}
		if files := kept(t, temporary); len(files) > 0 {
			t.Errorf("%s: %q is left behind", script, files)
		}
		if out := c.must(t, "inbox", "--agent", "b"); !strings.Contains(out, "nothing pending") {
			t.Errorf("%s: a message is sent: %s", script, out)
		}
	}
}

// TestEditorTextIsKept checks that nothing that was written is lost if it cannot be sent.
func TestEditorTextIsKept(t *testing.T) {
	for name, script := range map[string]string{
		"a body that is too long": `head -c 20001 /dev/zero | tr '\0' x > "$2"`,
		"an editor that fails":    `echo written > "$2"; exit 1`,
		"notes below the text":    `cp "$2" "$2.seen"; { head -c 20001 /dev/zero | tr '\0' x; echo; cat "$2.seen"; } > "$2"; rm "$2.seen"`,
	} {
		c, temporary := newWriter(t, script)
		if exit := c.run(t.Context(), question...); exit != failure.ExitFailed {
			t.Errorf("%s: exit status %d, want %d", name, exit, failure.ExitFailed)
		}
		if files := kept(t, temporary); len(files) != 1 || files[0] == "" || strings.Contains(files[0], scissors) {
			t.Errorf("%s: %.300q is kept, want what was written, and nothing else", name, files)
		}
		if !strings.Contains(c.stderr.String(), "what you wrote is kept in "+temporary) {
			t.Errorf("%s: standard error is %q, want where the text is", name, c.stderr.String())
		}
	}
}

// TestEditorIsNotOpened checks what is wrong before the user writes in vain, and without an editor.
func TestEditorIsNotOpened(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		exit int
		want string
		env  string
	}{
		"an unknown recipient":   {[]string{"send", "--from", "a", "--to", "x", "--type", "question", "--subject", "s"}, 1, `no agent "x"`, ""},
		"a subject too long":     {[]string{"send", "--from", "a", "--to", "b", "--type", "question", "--subject", strings.Repeat("s", 201)}, 1, "subject: ", ""},
		"a subject of two lines": {[]string{"send", "--from", "a", "--to", "b", "--type", "question", "--subject", "a\nb"}, 1, "a line break", ""},
		"no editor":              {question, 2, "neither VISUAL nor EDITOR names an editor", "-"},
		"no editor's command":    {question, 2, "VISUAL or EDITOR: ", "vi; rm x"},
		"a missing editor":       {question, 1, "the editor /absent/editor: ", "/absent/editor"},
	} {
		c, temporary := newWriter(t, `echo written > "$2"`)
		switch test.env {
		case "":
		case "-":
			c.env["EDITOR"] = ""
		default:
			c.env["VISUAL"] = test.env
		}
		if exit := c.run(t.Context(), test.args...); exit != test.exit || !strings.Contains(c.stderr.String(), test.want) {
			t.Errorf("%s: exit status %d, standard error %q, want %d and %q", name, exit, c.stderr.String(), test.exit, test.want)
		}
		if files := kept(t, temporary); len(files) > 0 {
			t.Errorf("%s: the editor left %q", name, files)
		}
	}
}

// TestEditorOfReply checks that the editor shows what the reply answers, and that a type with fields
// starts with its template.
func TestEditorOfReply(t *testing.T) {
	c, temporary := newWriter(t, `cp "$2" "$2.seen"; sed 's/^issue:/issue: 7/; s/^pr:/pr: 0/; s/^branch:/branch: main/; s/^tests_run:/tests_run: all/; s/^next_owner:/next_owner: a/' "$2.seen" > "$2"`)
	c.must(t, append(question, "--body", "The usual one?")...)
	c.must(t, "reply", sentID(t, c), "--from", "b", "--type", "handoff_complete")
	files := kept(t, temporary)
	if len(files) != 1 || !strings.Contains(files[0], "# It answers what a wrote:\n\nThe usual one?\n") || !strings.HasPrefix(files[0], "# Handoff completion body\n") {
		t.Errorf("the editor saw %q, want the template and the question", files)
	}
	if out := c.must(t, "inbox", "--agent", "a"); !strings.Contains(out, "handoff_complete") {
		t.Errorf("the inbox of a is %s, want the answer", out)
	}
}
