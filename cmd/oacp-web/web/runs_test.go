package web

import (
	"encoding/xml"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/testing/check"
)

func TestRuns(t *testing.T) {
	w := newWorkspace(t)
	root := t.TempDir()
	run, err := bridge.MakeRun(root, t.TempDir(), 1, time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, run.ManifestPath(), `{"id":1,"state":"working","prompt":"<script>alert(1)</script>","max_iterations":3,"primary_agent":"codex"}`)
	check.WriteFile(t, run.TranscriptPath(), `{"type":"execute","timestamp":"2026-03-13T14:30:00Z","iteration":1,"agent":"<b>&"}
{"type":"result","timestamp":"2026-03-13T14:31:00Z","iteration":1,"agent":"<b>&","duration":60000000000,"usage":{"input_tokens":70,"output_tokens":7,"cost_usd":0.5}}
no entry
`)
	check.WriteFile(t, run.BridgePath(), `{"id":"a","run_id":1,"type":"task","from":"user","to":"codex","content":"<img src=x>","timestamp":"2026-03-13T14:30:00Z"}`+"\nno record\n")
	check.WriteFile(t, filepath.Join(w.Dir(), "state", "turns", "codex.jsonl"), `{"at":"2026-03-13T14:30:00Z","fact":"started","id":"m1","from":"claude","subject":"<i>first","attempt":1}
{"at":"2026-03-13T14:30:20Z","fact":"failed","id":"m1","reason":"it broke","usage":{"input_tokens":12}}
`)
	b := newBrowser(t, w, "anna")
	b.server.options.Runs = Runs{root, []string{run.RepositoryID}}
	b.login()
	base := "/runs/p/" + run.RepositoryID + "/1"
	for path, words := range map[string][]string{
		"/runs":          {"&lt;script&gt;", "AgentPair 1", "1 turn", "1m0s", "$0.50", base},
		base:             {"&lt;b&gt;&amp;, iteration 1", "$0.50", "cost-small-dark.svg", "1 record"},
		base + "?page=1": {"not a record", "&lt;img src=x&gt;"},
		"/runs/a/codex":  {"&lt;i&gt;first", "it broke", "20s", "1 failed"},
	} {
		got := b.page(path)
		for _, word := range words {
			if !strings.Contains(got, word) {
				t.Errorf("%s lacks %q:\n%s", path, word, got)
			}
		}
		for _, bad := range []string{"<script>alert", "<img src=x", "<i>first"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
	}
	for _, path := range []string{base + "/cost.svg", base + "/tokens-dark.svg", "/runs/a/codex/duration-small.svg"} {
		got := b.get(path)
		if got.Code != http.StatusOK || got.Header().Get("Content-Type") != "image/svg+xml" {
			t.Errorf("%s: %d %s", path, got.Code, got.Header())
		}
		if err := xml.Unmarshal(got.Body.Bytes(), new(struct{})); err != nil {
			t.Errorf("%s: %v\n%s", path, err, got.Body)
		}
	}
	for _, path := range []string{"/runs/p/0123456789abcdef/1", "/runs/p/" + run.RepositoryID + "/2", "/runs/a/nobody", base + "/x.svg"} {
		if got := b.get(path); got.Code != http.StatusNotFound {
			t.Errorf("%s: want 404, got %d", path, got.Code)
		}
	}
}
