package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// hostile is what no page may execute, load, or break at. What is executed sets the global hacked.
var hostile = []string{
	"<script>window.hacked = 1</script>",
	"</textarea></pre></main><script>window.hacked = 1</script>",
	`<img src="http://127.0.0.1:1/x" onerror="window.hacked = 1">`,
	"![picture](http://127.0.0.1:1/picture.png)",
	"[click](javascript:window.hacked=1) [and](JaVaScRiPt:window.hacked=1) <javascript:window.hacked=1> [data](data:text/html,<script>window.hacked=1</script>)",
	`"><svg onload=window.hacked=1><style>@import "http://127.0.0.1:1/x"</style><iframe src=http://127.0.0.1:1/></iframe>`,
	"{{.Secret}} \u202e\u2066 gnp.exe \u202d",
	strings.Repeat("w", 19_900),
	"`" + strings.Repeat("c", 19_900) + "`",
	"```\n" + strings.Repeat("p", 19_900) + "\n```",
	"| a | b |\n|---|---|\n| " + strings.Repeat("t", 19_900) + " | <script>window.hacked=1</script> |",
}

// testBrowserHostile checks that no page executes what messages and files say, asks another server, or gets wider than
// a phone.
func testBrowserHostile(t *testing.T, chromium context.Context) {
	w := newWorkspace(t)
	subject := `</title><script>window.hacked=1</script><img src=http://127.0.0.1:1/x onerror=window.hacked=1>` + strings.Repeat("s", 90)
	asked := ask(t, w, subject, strings.Join(hostile[:7], "\n\n"))
	for _, body := range hostile[7:] {
		mailboxtest.Send(t, w, schema.Message{From: "codex", To: []schema.AgentName{"anna"}, Type: schema.FollowUp, Subject: subject,
			Body: schema.TextValue(body), ParentID: asked.ID, ConversationID: asked.ConversationID})
	}
	var fields schema.Value
	data, err := json.Marshal(map[string]any{"<script>window.hacked=1</script>": hostile[:7]})
	if err = errors.Join(err, json.Unmarshal(data, &fields)); err != nil {
		t.Fatal(err)
	}
	typed := mailboxtest.Send(t, w, schema.Message{From: "codex", To: []schema.AgentName{"anna"}, Type: schema.Notification, Subject: "Fields", Body: fields}).Message
	check.WriteFile(t, filepath.Join(w.BoxPath("anna", mailbox.Inbox), `<img src=x onerror=window.hacked=1>.yaml`), strings.Join(hostile, "\n"))

	b := newTab(t, chromium, serveBrowser(t, w, Runs{}), as("light", 390))
	requests := b.requests()
	pages := []string{"/", "/c/" + string(asked.ID), "/m/" + string(asked.ID), "/m/" + string(typed.ID), "/a/anna/inbox", "/a/codex/outbox", "/search?q=gnp", "/search?q=" + url.QueryEscape(hostile[1])}
	for _, path := range pages {
		b.visit(path)
		b.checkWidth(390)
		b.checkHarmless()
	}
	b.do(chromedp.Navigate(b.origin + "/m/" + string(asked.ID) + "/json"))
	b.checkHarmless()
	b.visit("/m/" + string(asked.ID))
	b.do(click("#files a[href$='.yaml']"), shown("body > pre"))
	b.checkHarmless()
	// An answer that cannot be sent is shown again.
	b.visit("/m/" + string(asked.ID))
	b.do(chromedp.SetValue(chromedp.CSS("#text"), hostile[1]))
	check.Remove(t, w.BoxPath("anna", mailbox.Outbox))
	check.WriteFile(t, w.BoxPath("anna", mailbox.Outbox), "no folder")
	b.do(click("button.main"), shown("[role=alert]"))
	if kept := run(b, chromedp.Value(chromedp.CSS("main textarea"))); kept != hostile[1] {
		t.Errorf("the page keeps the text %q", kept)
	}
	b.checkWidth(390)
	b.checkHarmless()
	for _, address := range requests() {
		if !strings.HasPrefix(address, b.origin+"/") {
			t.Errorf("a page asks for %.200s", address)
		}
	}
}

// requests collects what the tab asks servers for from now on.
func (b *browserTab) requests() func() []string {
	b.t.Helper()
	var mutex sync.Mutex
	var addresses []string
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		return err
	}))
	if err := chromedp.Listen(b.ctx, func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			mutex.Lock()
			defer mutex.Unlock()
			addresses = append(addresses, sent.Request.URL)
		}
	}); err != nil {
		b.t.Fatal(err)
	}
	return func() []string {
		mutex.Lock()
		defer mutex.Unlock()
		if len(addresses) == 0 {
			b.t.Error("the tab asked for nothing")
		}
		return addresses
	}
}

// checkHarmless checks that the page has executed nothing, and has nothing that a click executes.
func (b *browserTab) checkHarmless() {
	b.t.Helper()
	found := run(b, chromedp.Evaluate[[]string](`[
		...("hacked" in window ? ["a message was executed"] : []),
		...[...document.querySelectorAll("script:not([src^='/static/']), iframe, style, svg, object, embed, main img")].map(e => e.outerHTML),
		...[...document.links].filter(a => !/^(https?|mailto):$/.test(a.protocol)).map(a => a.outerHTML),
		...[...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => a.name.startsWith("on"))).map(e => e.outerHTML)]`))
	for _, e := range found {
		b.t.Errorf("%s has %.300s", run(b, chromedp.Location()), e)
	}
}

// press presses the key of a letter as a keyboard does: a page that handles it keeps it from being typed.
func press(letter string) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: letter, Text: letter})
		if err == nil {
			_, err = cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: letter})
		}
		return err
	})
}

// testBrowserKeyboard checks that the keyboard alone is enough to read and answer.
func testBrowserKeyboard(t *testing.T, chromium context.Context) {
	w := newWorkspace(t)
	ask(t, w, "Deploy?", "It is **green**.")
	b := newTab(t, chromium, serveBrowser(t, w, Runs{}))
	loaded := chromedp.Evaluate[chromedp.Void](`new Promise(done => document.readyState === "complete" ? done() : addEventListener("load", () => done()))`, chromedp.EvalAwaitPromise)
	b.do(loaded, press("?"), shown("#keys"), chromedp.KeyEvent(kb.Escape), press("j"), chromedp.KeyEvent(kb.Enter),
		shown(".message .body strong"), loaded, press("r"), chromedp.KeyEvent("At noon: j, r and ? are letters here."))
	for range 10 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if run(b, chromedp.Evaluate[bool](`document.activeElement.matches("button.main")`)) {
			break
		}
	}
	b.do(chromedp.KeyEvent(kb.Enter), shown(".mine"))
	wantAnswer(t, w, "At noon: j, r and ? are letters here.")
}

// testBrowserWithoutScript checks that a person can log in, read, search and answer without the script.
func testBrowserWithoutScript(t *testing.T, chromium context.Context) {
	w := newWorkspace(t)
	ask(t, w, "Deploy?", "It is **green**.")
	b := newTab(t, chromium, serveBrowser(t, w, Runs{}), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	b.do(chromedp.SendKeys(chromedp.CSS("#search"), "green"+kb.Enter), shown("main mark"), click("main [data-open]"), shown("#reply"),
		chromedp.SendKeys(chromedp.CSS("#text"), "At noon."), click("button.main"), shown(".mine"))
	wantAnswer(t, w, "At noon.")
}

// wantAnswer checks that anna has sent one message, with the text.
func wantAnswer(t *testing.T, w *mailbox.Workspace, text string) {
	t.Helper()
	sent := sentBy(t, w, "anna")
	if len(sent) != 1 || sent[0].Err != nil {
		t.Fatalf("anna has sent %v", sent)
	}
	if got := strings.TrimSpace(sent[0].Message.Body.Text); got != text {
		t.Errorf("anna has sent %q, want %q", got, text)
	}
}
