package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/internal/testing/modelstub"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// exported writes the pages of a workspace, and returns their folder.
func exported(t *testing.T, w *mailbox.Workspace, runs Runs) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "public")
	warn := func(err error) { t.Error(err) }
	pages, err := Export(t.Context(), w, dir, Options{Person: "anna", Runs: runs, Warn: warn}, func(done, known int) {})
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
		}
		return err
	})
	if err != nil || files != pages {
		t.Errorf("%d files are there, not %d: %v", files, pages, err)
	}
	return dir
}

// TestExport checks that all links of an export lead to its files, and that its pages have no form and nothing hostile.
func TestExport(t *testing.T) {
	w, runs, asked := furnished(t)
	fill(t, w, 220)
	bad := mailboxtest.Send(t, w, schema.Message{From: "codex", To: []schema.AgentName{"anna"}, Type: schema.Notification,
		Subject: "<script>alert(1)</script>", Body: schema.TextValue("[x](javascript:alert(1)) <img src=x>")}).Message
	check.WriteFile(t, filepath.Join(w.BoxPath("anna", mailbox.Inbox), `a #?%"<b>.yaml`), "no: [message")
	dir := exported(t, w, runs)
	links := regexp.MustCompile(`(?:href|src|srcset)="([^"]*)"`)
	var pages int
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		pages++
		data, err := os.ReadFile(path)
		text := string(data)
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			at, err := url.Parse(strings.ReplaceAll(link[1], "&#43;", "+"))
			if err != nil || at.IsAbs() || strings.HasPrefix(at.Path, "/") {
				t.Errorf("%s links %s: %v", path, link[1], err)
			} else if _, err := os.Stat(filepath.Join(filepath.Dir(path), filepath.FromSlash(at.Path))); err != nil {
				t.Errorf("%s links %s: %v", path, link[1], err)
			}
		}
		for _, bad := range []string{"<form method=\"post\"", "csrf", "data-events", "<script>alert", "<img src=x", "javascript:alert(1)\"", "There is no such"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
		return err
	})
	if err != nil || pages < 220 {
		t.Errorf("there are %d pages: %v", pages, err)
	}
	for file, word := range map[string]string{
		"index.html": "count accounts", "titles.html": "Which address counts", "a/claude/outbox-3.html": "3 of",
		"m/" + string(bad.ID) + ".json": `"recipients"`, "m/" + string(asked.ID) + ".html": "trust the header",
	} {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil || !strings.Contains(string(data), word) {
			t.Errorf("%s lacks %q: %v", file, word, err)
		}
	}
}

// TestExportRefuses checks that an export adds nothing to files that are there, and that an interrupted one has no first
// page.
func TestExportRefuses(t *testing.T) {
	w := newWorkspace(t)
	ask(t, w, "Deploy?", "It is green.")
	dir := t.TempDir()
	options := Options{Warn: func(err error) { t.Error(err) }}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Export(ctx, w, dir, options, func(done, known int) {
		if done == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the interrupted export: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "index.html")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first page of an interrupted export: %v", err)
	}
	if _, err := Export(t.Context(), w, dir, options, func(done, known int) {}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("an export into the same folder: %v", err)
	}
}

// testBrowserExport checks in the browser that the pages of an export work without a server.
func testBrowserExport(t *testing.T, chromium context.Context) {
	w, runs, asked := furnished(t)
	dir := exported(t, w, runs)
	b := newTab(t, chromium, serveBrowser(t, w, runs))
	b.origin = (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
	b.do(chromedp.Navigate(b.origin+"/titles.html"), shown("#titles"))
	b.do(chromedp.SendKeys(chromedp.CSS("#search"), "address PROXY"))
	b.do(chromedp.WaitNotVisible(chromedp.CSS("#titles li:last-child")))
	b.do(click("#titles li:not([hidden]) a"), shown("article.message"))
	if at := run(b, chromedp.Location()); !strings.Contains(at, "/c/") {
		t.Errorf("the title leads to %s", at)
	}
	if text := run(b, chromedp.Text(chromedp.CSS("main"))); !strings.Contains(text, "X-Forwarded-For") {
		t.Errorf("the conversation of %s says %s", asked.ID, text)
	}
	if style := run(b, chromedp.Evaluate[string](`getComputedStyle(document.querySelector("article.message")).borderRadius`)); style != "8px" {
		t.Errorf("the stylesheet is not used: %s", style)
	}
}

// TestValidHTML checks the pages of a server and of an export with html-validate.
func TestValidHTML(t *testing.T) {
	modules := filepath.Join("..", "..", "..", "testdata", "node_modules")
	validator, err := filepath.Abs(filepath.Join(modules, "html-validate", "bin", "html-validate.mjs"))
	if err == nil {
		_, err = os.Stat(validator)
	}
	if err != nil {
		modelstub.Missing(t, "html-validate is not installed; install it with: npm ci --prefix testdata")
	}
	w, runs, asked := furnished(t)
	dir := exported(t, w, runs)
	b := newBrowser(t, w, "anna").unlimited()
	b.server.options.Runs = runs
	check.WriteFile(t, filepath.Join(dir, "login.html"), b.get("/login?token=wrong").Body.String())
	b.login()
	for i, path := range pagesOf(runs, asked) {
		check.WriteFile(t, filepath.Join(dir, fmt.Sprintf("served-%d.html", i)), b.get(path).Body.String())
	}
	check.WriteFile(t, filepath.Join(dir, "rules.json"), `{"root": true, "extends": ["html-validate:standard"]}`)
	report, err := exec.CommandContext(t.Context(), "node", validator, "--config", filepath.Join(dir, "rules.json"), dir+"/**/*.html").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, report)
	}
}
