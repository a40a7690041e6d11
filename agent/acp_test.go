package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/orphans"
)

// newFakeACP returns a driver for a program that the test binary plays.
func newFakeACP(t testing.TB, change func(*Options), kind string, args ...string) *resident {
	t.Helper()
	options := Options{Command: helperCommand(t, "acp", append([]string{kind}, args...)...), Dir: t.TempDir()}
	if change != nil {
		change(&options)
	}
	return NewACP(options).(*resident)
}

func TestACPTurns(t *testing.T) {
	driver := newFakeACP(t, nil, "asks")
	started(t, driver)
	if got := driver.SessionID(); got != "" {
		t.Errorf("session %q before the first turn, want none", got)
	}
	for n, prompt := range []string{"one\nand more", "two"} {
		text := ""
		result, err := driver.Turn(impatient(t), Request{Prompt: prompt}, func(e Event) { text += e.Text })
		want := Usage{InputTokens: 100, OutputTokens: 7}
		if n == 0 {
			want.CostUSD = 0.25 // the second update names the same sum for the whole session
		}
		if err != nil || result.Text != "you said: "+prompt || text != result.Text || result.SessionID == "" || result.Usage != want {
			t.Errorf("%q: result %+v, error %v, events %q; want the answer and the usage %+v", prompt, result, err, text, want)
		}
	}
}

// TestACPUnavailable starts programs that no turn could run on.
func TestACPUnavailable(t *testing.T) {
	for kind, want := range map[string]string{
		"dies at once":   "cannot find my configuration",
		"newer":          "speaks version 2 of the Agent Client Protocol, and oacp speaks version 1",
		"needs login":    "Authentication required; log in with",
		"strange answer": "reading the answer",
		"opencode":       "runs commands without asking, so --allow own means nothing to it; use --allow all",
	} {
		t.Run(kind, func(t *testing.T) {
			driver := newFakeACP(t, nil, kind)
			defer stopped(t, driver)
			if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
				t.Errorf("Start = %v, want ErrUnavailable and %q", err, want)
			}
		})
	}
	if err := NewACP(Options{Command: []string{"no-such-program"}}).Start(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Start of a program that is missing = %v, want ErrUnavailable", err)
	}
}

// TestACPGarbage checks that lines that are no messages do no harm.
func TestACPGarbage(t *testing.T) {
	driver := newFakeACP(t, nil, "garbage")
	started(t, driver)
	if result := turn(t, driver, "hello"); result.Text != "you said: hello" {
		t.Errorf("answer %q", result.Text)
	}
}

// TestACPNeverAnswers gives up on a program that does not answer.
func TestACPNeverAnswers(t *testing.T) {
	driver := newFakeACP(t, nil, "mute")
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, enough)
	defer cancel()
	if err := driver.Start(ctx); !errors.Is(err, enough) {
		t.Errorf("Start = %v, want the context's cause", err)
	}
}

// TestACPForks checks that a program that leaves its work to another process ends with it.
func TestACPForks(t *testing.T) {
	held := filepath.Join(t.TempDir(), "held")
	if err := os.WriteFile(held, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	driver := newFakeACP(t, nil, "forks", held)
	if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Start = %v, want ErrUnavailable", err)
	}
}

func TestACPMode(t *testing.T) {
	driver := newFakeACP(t, func(o *Options) { o.MCP = map[string]MCPServer{"oacp": {Command: []string{"/bin/oacp", "mcp"}}} }, "asks")
	started(t, driver)
	if got := turn(t, driver, "mode ?").Text; got != "default" {
		t.Errorf("the program is in mode %q, want the one in which it asks", got)
	}
	if got := turn(t, driver, "servers ?").Text; !strings.Contains(got, "/bin/oacp") || !strings.Contains(got, "[mcp]") {
		t.Errorf("the program got the servers %q", got)
	}
}

// TestACPPermissions checks which requests are granted, and that refused ones are reported.
func TestACPPermissions(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	inside := filepath.Join(dir, "new", "file")
	for link, target := range map[string]string{"out": outside, "dangling": filepath.Join(outside, "nothing")} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		allow   Permission
		prompt  string
		granted bool
		need    Permission
	}{
		{PermitOwn, "edit " + inside, false, PermitEdits},
		{PermitEdits, "edit " + inside, true, ""},
		{PermitEdits, "edit " + dir + "/a," + dir + "/b", true, ""},
		{PermitEdits, "edit " + dir + "/a," + outside + "/b", false, PermitAll},
		{PermitEdits, "edit " + dir + "/../b", false, PermitAll},
		{PermitEdits, "edit " + dir + "/out/b", false, PermitAll},
		{PermitEdits, "edit " + dir + "/dangling", false, PermitAll},
		{PermitEdits, "edit " + dir + "/.git/hooks/post-commit", false, PermitAll},
		{PermitEdits, "edit relative", false, PermitAll},
		{PermitEdits, "run rm -r x", false, PermitAll},
		{PermitEdits, "run go test", true, ""},
		{PermitAll, "run rm -r x", true, ""},
		{PermitAll, "edit " + outside + "/b", true, ""},
	}
	for n, test := range tests {
		driver := newFakeACP(t, func(o *Options) { o.Dir, o.Allow, o.MayRun = dir, test.allow, []string{"go test"} }, "asks")
		started(t, driver)
		result := turn(t, driver, test.prompt)
		want, refused := "not permitted", []Refusal{{Tool: "execute", What: "rm -r x", Count: 1, Allow: test.need}}
		if tool, object, _ := strings.Cut(test.prompt, " "); tool == "edit" {
			path, _, _ := strings.Cut(object, ",")
			refused[0].Tool, refused[0].What = "edit", path
		}
		if test.granted {
			want, refused = "did it", nil
		}
		if result.Text != want || !reflect.DeepEqual(result.Refused, refused) {
			t.Errorf("%d: %s %q: answer %q, refused %+v; want %q, %+v", n, test.allow, test.prompt, result.Text, result.Refused, want, refused)
		}
	}
}

// TestACPSilent checks that a turn fails if the program acts without asking, unless it may.
func TestACPSilent(t *testing.T) {
	for allow, want := range map[Permission]string{PermitOwn: "did not ask before it used execute: touch x", PermitAll: ""} {
		driver := newFakeACP(t, func(o *Options) { o.Allow = allow }, "silent")
		started(t, driver)
		_, err := driver.Turn(impatient(t), Request{Prompt: "run touch x"}, nil)
		if got := err == nil; got != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("permission %s: error %v, want %q", allow, err, want)
		}
		if result := turn(t, driver, "hello"); result.Text != "you said: hello" {
			t.Errorf("permission %s: the next answer is %q", allow, result.Text)
		}
	}
}

// TestACPAsksIf checks that --allow own accepts a program whose settings make it ask for permission.
func TestACPAsksIf(t *testing.T) {
	driver := newFakeACP(t, func(o *Options) { o.Env = []string{`OPENCODE_PERMISSION={"*":"ask"}`} }, "opencode")
	started(t, driver)
	if result := turn(t, driver, "run touch x"); result.Text != "not permitted" || len(result.Refused) != 1 {
		t.Errorf("result %+v, want a refusal", result)
	}
}

// TestACPRequests checks that a program gets no files and that its own requests get an answer.
func TestACPRequests(t *testing.T) {
	driver := newFakeACP(t, nil, "asks")
	started(t, driver)
	result := turn(t, driver, "read /etc/passwd")
	if want := []Refusal{{Tool: "fs/read_text_file", What: "/etc/passwd", Count: 1}}; !strings.Contains(result.Text, "method not found") || !reflect.DeepEqual(result.Refused, want) {
		t.Errorf("answer %q, refused %+v; want no file", result.Text, result.Refused)
	}
	if result := turn(t, driver, "call craft/drainMidTurnQueue"); !strings.Contains(result.Text, "method not found") || result.Refused != nil {
		t.Errorf("result %+v, want an error for a method that nobody knows", result)
	}
}

func TestACPFailures(t *testing.T) {
	driver := newFakeACP(t, nil, "asks")
	started(t, driver)
	tests := []struct {
		prompt string
		kind   APIErrorKind
		want   string
	}{
		{"fail nothing helps", "", "nothing helps"},
		{"fail API Error: 401 invalid x-api-key", NotLoggedIn, "log in with"},
		{"fail unexpected status 500 Internal", Failing, "try again later"},
		{"fail You exceeded your current quota", RateLimited, "wait until"},
		{"stop max_tokens", TooLong, "the turn ended with the reason max_tokens"},
		{"stop refusal", Declined, "the turn ended with the reason refusal"},
	}
	for _, test := range tests {
		_, err := driver.Turn(impatient(t), Request{Prompt: test.prompt}, nil)
		if apiKind(err) != test.kind || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v of kind %q, want kind %q and %q", test.prompt, err, apiKind(err), test.kind, test.want)
		}
	}
	if result := turn(t, driver, "flood"); len(result.Text) != MaxText || !result.Truncated {
		t.Errorf("an answer of 10 MB has %d bytes, truncated: %v; want %d", len(result.Text), result.Truncated, MaxText)
	}
}

// TestACPCancel checks that a program is asked to end a turn, and stopped if it does not.
func TestACPCancel(t *testing.T) {
	for _, deed := range []string{"hold", "ignore"} {
		driver := newFakeACP(t, func(o *Options) { o.Grace = time.Second }, "asks", t.TempDir())
		started(t, driver)
		process := driver.running.Load()
		ctx, cancel := context.WithCancel(impatient(t))
		result, err := driver.Turn(ctx, Request{Prompt: deed}, whenSeen("half", cancel))
		if !errors.Is(err, context.Canceled) || !process.hasEnded() || result.Usage.InputTokens > 0 != (deed == "hold") {
			t.Errorf("%s: error %v, usage %+v, ended: %v; want the end of the program, and the usage if it has ended the turn", deed, err, result.Usage, process.hasEnded())
		}
		session := driver.SessionID()
		if result := turn(t, driver, "hello"); result.Text != "you said: hello" || result.SessionID != session {
			t.Errorf("%s: the next turn has the result %+v, want session %s", deed, result, session)
		}
	}
}

// TestACPSessions kills the program in a turn and checks how the session continues.
func TestACPSessions(t *testing.T) {
	for _, kind := range []string{"resumes", "loads", "loads late", "forgets"} {
		t.Run(kind, func(t *testing.T) {
			var folder []string
			if kind != "forgets" {
				folder = append(folder, t.TempDir())
			}
			driver := newFakeACP(t, nil, kind, folder...)
			started(t, driver)
			before := turn(t, driver, "hello").SessionID
			var told []string
			result, err := RunTurn(impatient(t), driver, Request{Prompt: "die"}, func(e Event) {
				for _, act := range e.Acts {
					told = append(told, string(act.Kind)+": "+act.Text)
				}
			}, nil)
			// The second try begins with a note, so it is no longer the order to die.
			if err != nil || !strings.HasPrefix(result.Text, "you said: [The program that ran you") || !strings.Contains(result.Tail, "out of memory") {
				t.Errorf("result %+v, error %v", result, err)
			}
			if got := result.SessionID == before; got != (kind != "forgets") || got != (told == nil) {
				t.Errorf("session %s after %s, told %q", result.SessionID, before, told)
			}
			if kind == "forgets" && (len(told) != 1 || !strings.HasPrefix(told[0], "new_session: ") || !strings.Contains(told[0], "cannot continue a session")) {
				t.Errorf("told %q, want a line about the new session", told)
			}
		})
	}
}

func TestACPUnknownSession(t *testing.T) {
	for _, kind := range []string{"resumes", "loads"} {
		driver := newFakeACP(t, func(o *Options) { o.Session = "nobody" }, kind, t.TempDir())
		if err := driver.Start(impatient(t)); !errors.Is(err, ErrUnknownSession) || errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: Start = %v, want ErrUnknownSession", kind, err)
		}
		stopped(t, driver)
	}
}

// TestACPMark checks that the program has the context's mark.
func TestACPMark(t *testing.T) {
	mark := orphans.OwnerOf("").NewMark()
	driver := newFakeACP(t, nil, "asks")
	if err := driver.Start(orphans.WithMark(impatient(t), mark)); err != nil {
		t.Fatal(err)
	}
	defer stopped(t, driver)
	if result := turn(t, driver, "mark ?"); result.Text != string(mark) {
		t.Errorf("the program's mark is %q, want %s", result.Text, mark)
	}
}
