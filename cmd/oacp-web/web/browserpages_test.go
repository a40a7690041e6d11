package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// furnished makes a workspace whose pages all have something to show, and returns a question in it that waits for anna.
func furnished(t *testing.T) (w *mailbox.Workspace, runs Runs, asked *schema.Message) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	if _, err := project.Init(dir, project.InitOptions{Agents: []schema.AgentName{"claude", "codex"}, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	w = mailboxtest.Open(t, dir)
	if _, err := project.AddAgent(w, "anna", project.AgentOptions{Runtime: "human", Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	send := func(m schema.Message, parent *schema.Message) *schema.Message {
		if parent != nil {
			m.ParentID, m.ConversationID = parent.ID, parent.ConversationID
		}
		return mailboxtest.Send(t, w, m).Message
	}
	send(schema.Message{From: "claude", To: []schema.AgentName{"anna"}, Type: schema.Notification, Subject: "The search index is rebuilt",
		Body: schema.TextValue("It took 40 seconds; nothing is left to do.")}, nil)
	task := send(schema.Message{From: "claude", To: []schema.AgentName{"codex"}, Type: schema.TaskRequest, Subject: "Limit the rate of logins",
		Body: schema.TextValue("A token bucket per address:\n\n* five attempts, then one a minute\n* a test that can fail\n\n```go\nlimiter := rate.NewLimiter(rate.Every(time.Minute), 5)\n```")}, nil)
	question := schema.Message{From: "codex", To: []schema.AgentName{"anna"}, Type: schema.Question, Priority: schema.P1, Subject: "Which address counts behind a proxy?",
		Body: schema.TextValue("The limit works, but behind a proxy all logins have **one address**. I can trust `X-Forwarded-For`, count accounts instead, or leave it.")}
	if err := question.Offer([]string{"trust the header", "count accounts", "leave it"}); err != nil {
		t.Fatal(err)
	}
	asked = send(question, task)
	run, err := bridge.MakeRun(filepath.Join(t.TempDir(), "runs"), t.TempDir(), 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, run.ManifestPath(), `{"id":1,"state":"working","prompt":"Limit the rate of logins","max_iterations":3,"primary_agent":"codex"}`)
	check.WriteFile(t, run.TranscriptPath(), `{"type":"execute","timestamp":"2026-03-13T14:30:00Z","iteration":1,"agent":"codex"}
{"type":"result","timestamp":"2026-03-13T14:31:00Z","iteration":1,"agent":"codex","duration":60000000000,"usage":{"input_tokens":70,"output_tokens":7,"cost_usd":0.5}}
`)
	check.WriteFile(t, run.BridgePath(), `{"id":"a","run_id":1,"type":"task","from":"user","to":"codex","content":"Limit the rate","timestamp":"2026-03-13T14:30:00Z"}`+"\n")
	return w, Runs{filepath.Dir(filepath.Dir(filepath.Dir(run.ManifestPath()))), []string{run.RepositoryID}}, asked
}

// pagesOf returns the paths of all kinds of pages of a furnished workspace.
func pagesOf(runs Runs, asked *schema.Message) []string {
	return []string{
		"/", "/c/" + string(asked.ID), "/m/" + string(asked.ID), "/m/" + string(asked.ID) + "/nothing", "/a/anna/inbox", "/a/codex/outbox", "/a/codex/dead_letter",
		"/search", "/search?q=proxy", "/search?q=type:nonsense", "/runs", "/runs/p/" + runs.Repositories[0] + "/1", "/doctor", "/c/nothing",
	}
}

// testBrowserPictures takes the pictures of the documents. With -artifacts it keeps those of a phone, too.
func testBrowserPictures(t *testing.T, chromium context.Context) {
	w, runs, asked := furnished(t)
	b := newTab(t, chromium, serveBrowser(t, w, runs))
	for name, path := range map[string]string{"web-home": "/", "web-conversation": "/c/" + string(asked.ID)} {
		b.do(as("light", 1200))
		b.visit(path)
		picture := run(b, chromedp.FullScreenshot(100))
		if *update {
			check.WriteFile(t, filepath.Join("..", "..", "..", "docs", "pictures", name+".png"), string(picture))
		}
		b.do(as("dark", 390))
		b.visit(path)
		check.WriteFile(t, filepath.Join(t.ArtifactDir(), name+"-phone.png"), string(run(b, chromedp.FullScreenshot(100))))
	}
}

// checkWidth checks that the page does not scroll sideways.
func (b *browserTab) checkWidth(width int64) {
	b.t.Helper()
	if got := run(b, chromedp.Evaluate[int64]("document.documentElement.scrollWidth")); got > width {
		wide := run(b, chromedp.Evaluate[string](fmt.Sprintf(`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > %d).map(e => e.outerHTML.slice(0, 120)).join("\n")`, width)))
		b.t.Errorf("%s is %d pixels wide, not %d:\n%.2000s", run(b, chromedp.Location()), got, width, wide)
	}
}

// testBrowserAccessible checks with axe-core that people can use each page who see little, or nothing.
func testBrowserAccessible(t *testing.T, chromium context.Context) {
	axe, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		modelstub.Missing(t, "axe-core is not installed; install it with: npm ci --prefix testdata")
	}
	w, runs, asked := furnished(t)
	b := newTab(t, chromium, serveBrowser(t, w, runs))
	for _, path := range append(pagesOf(runs, asked), "/login?token=wrong") {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{390, 1200} {
				b.do(as(scheme, width))
				b.visit(path)
				b.checkWidth(width)
				b.do(chromedp.Evaluate[chromedp.Void](string(axe) + "; 0"))
				found := run(b, chromedp.Evaluate[[]string](`axe.run().then(found => found.violations.flatMap(v =>
					v.nodes.map(n => v.id + ": " + n.html + ": " + n.failureSummary)))`, chromedp.EvalAwaitPromise))
				for _, violation := range found {
					t.Errorf("%s, %s, %d pixels: %s", path, scheme, width, violation)
				}
			}
		}
	}
}
