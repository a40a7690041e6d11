package web

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/mailbox"
)

var update = flag.Bool("update", false, "take the pictures in docs/pictures anew")

// userHome has the caches of go, before the tests get a home of their own.
var userHome = os.Getenv("HOME")

// patience is how long something may take to appear in the browser.
const patience = time.Minute

// TestBrowser drives the pages with Chromium. All its parts share one.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what runs mostly another program")
	}
	chromium := startChromium(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, context.Context)
	}{
		{"answer", testBrowserAnswer},
		{"two", testTwoBrowsers},
		{"pictures", testBrowserPictures},
		{"accessible", testBrowserAccessible},
		{"hostile", testBrowserHostile},
		{"keyboard", testBrowserKeyboard},
		{"without script", testBrowserWithoutScript},
		{"export", testBrowserExport},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, chromium) })
	}
}

// startChromium starts Chromium, which reaches nothing but this machine.
func startChromium(t *testing.T) context.Context {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		modelstub.Missing(t, "chromium is not installed")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting %s: %v", program, err)
	}
	return ctx
}

type step = chromedp.Action[chromedp.Void]

// A browserTab is a tab of the browser.
type browserTab struct {
	t   *testing.T
	ctx context.Context
	// origin is that of the server.
	origin string
}

// newTab opens a tab that shares nothing with others, with the URL of an invitation.
func newTab(t *testing.T, chromium context.Context, invitation string, before ...step) *browserTab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	origin, _, _ := strings.Cut(invitation, "/login")
	b := &browserTab{t: t, ctx: ctx, origin: origin}
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the context of its first action
		t.Fatal(err)
	}
	b.do(append(before, chromedp.Navigate(invitation), shown("nav[aria-label=Site]"))...)
	return b
}

// run runs an action in the tab.
func run[T any](b *browserTab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		at, _ := chromedp.Run(b.ctx, chromedp.Location())
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText`))
		b.t.Fatalf("%v; %s shows:\n%s", err, at, text)
	}
	return result
}

func (b *browserTab) do(steps ...step) {
	b.t.Helper()
	for _, s := range steps {
		run(b, s)
	}
}

// visit shows the page of the path.
func (b *browserTab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.origin+path), shown("main h1, main h2"))
}

// shown waits until an element is visible.
func shown(css string) step { return chromedp.WaitVisible(chromedp.CSS(css)) }

// click clicks an element.
func click(css string) step { return chromedp.Click(chromedp.CSS(css)) }

// as emulates a color scheme and a width.
func as(scheme string, width int64) step {
	return chromedp.Steps(chromedp.EmulateViewport(width, 800), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// buildPrograms builds oacp and oacp-web, and returns their folder.
func buildPrograms(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", bin+string(filepath.Separator), "../../oacp", "..")
	build.Env = append(os.Environ(), "HOME="+userHome)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// testBrowserAnswer checks that a question of a real oacp send appears in an open page of a real oacp web, is found by a
// word of its body, and is answered with one click, which the terminal of the sender prints.
func testBrowserAnswer(t *testing.T, chromium context.Context) {
	bin, dir := buildPrograms(t), t.TempDir()
	oacp := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), filepath.Join(bin, "oacp"), args...)
		c.Dir = dir
		return c
	}
	for _, line := range []string{"init --agents claude,codex", "add-agent anna --runtime human"} {
		if out, err := oacp(strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("oacp %s: %v\n%s", line, err, out)
		}
	}
	web := oacp("web", "--agent", "anna")
	var warnings bytes.Buffer
	web.Stderr = &warnings
	output, err := web.StdoutPipe()
	if err == nil {
		err = web.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	invitation, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("oacp web prints no URL: %v\n%s", err, &warnings)
	}
	b := newTab(t, chromium, strings.TrimSpace(invitation))
	b.do(shown("#waiting .faint"), chromedp.Evaluate[chromedp.Void]("window.first = true"))

	send := oacp("send", "--from", "codex", "--to", "anna", "--type", "question", "--subject", "Deploy tonight?",
		"--body", "The pangolin release is green. Deploy it?", "--choices", "yes,no,later", "--wait=reply")
	var printed bytes.Buffer
	send.Stdout, send.Stderr = &printed, &printed
	if err := send.Start(); err != nil {
		t.Fatal(err)
	}
	b.do(shown("#waiting button[value=later]"))
	if !run(b, chromedp.Evaluate[bool]("window.first === true")) {
		t.Error("the page was loaded again")
	}
	if title := run(b, chromedp.Title()); !strings.HasPrefix(title, "(1) ") {
		t.Errorf("the title is %q", title)
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#search"), "pangolin"+kb.Enter), shown("main mark"))
	if hit := run(b, chromedp.Text(chromedp.CSS("main mark"))); hit != "pangolin" {
		t.Errorf("the hit is %q", hit)
	}
	b.visit("/")
	b.do(click("#waiting button[value=later]"), shown(".mine .chosen"))
	if err := send.Wait(); err != nil || !strings.Contains(printed.String(), "later") {
		t.Errorf("oacp send: %v\n%s", err, &printed)
	}
	if err := web.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := web.Wait(); err != nil || warnings.Len() > 0 {
		t.Errorf("oacp web: %v\n%s", err, &warnings)
	}
}

// testTwoBrowsers checks that one of two browsers that answer a question wins, and that the other one shows why, with its
// text.
func testTwoBrowsers(t *testing.T, chromium context.Context) {
	w := newWorkspace(t)
	asked := ask(t, w, "Deploy?", "It is green.")
	l := serve(t, w, Runs{})
	one, two := newTab(t, chromium, l.Invite()), newTab(t, chromium, l.Invite())
	two.visit("/c/" + string(asked.ID))
	two.do(chromedp.SendKeys(chromedp.CSS("#text"), "not before noon"))
	one.visit("/c/" + string(asked.ID))
	one.do(click("#reply button[value=yes]"), shown(".mine .chosen"))
	two.do(shown(".stage.ok"), click("#reply button[value=no]"), shown("#reply [role=alert]")) // it shows both
	if why := run(two, chromedp.Text(chromedp.CSS("#reply [role=alert]"))); !strings.Contains(why, "anna answered message") {
		t.Errorf("the other browser says %q", why)
	}
	if kept := run(two, chromedp.Value(chromedp.CSS("#text"))); kept != "not before noon" {
		t.Errorf("the other browser keeps %q", kept)
	}
	if sent := sentBy(t, w, "anna"); len(sent) != 1 || sent[0].Message.Marks.Choice != "yes" {
		t.Errorf("anna sent %+v", sent)
	}
}

// serveBrowser serves a workspace until the test ends, and returns the URL of an invitation.
func serveBrowser(t *testing.T, w *mailbox.Workspace, runs Runs) string {
	t.Helper()
	return serve(t, w, runs).Invite()
}

func serve(t *testing.T, w *mailbox.Workspace, runs Runs) *Listener {
	t.Helper()
	server, err := New(w, Options{Person: "anna", Runs: runs, Warn: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	l, err := server.Listen(Listen{Address: "127.0.0.1:0"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	served, stop := startServing(t, l)
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(fmt.Errorf("closing: %w", err))
		}
	})
	return l
}
