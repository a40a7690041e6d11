package web

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// TestFullDisk answers on a disk that is full: nothing is sent or lost, and the same answer is sent when there is room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	check.SmallDisk(t, dir, "1m")
	if _, err := project.Init(filepath.Join(dir, "ws"), project.InitOptions{Agents: []schema.AgentName{"codex"}, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	w := mailboxtest.Open(t, filepath.Join(dir, "ws"))
	if _, err := project.AddAgent(w, "anna", project.AgentOptions{Runtime: "human", Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	asked := ask(t, w, "Deploy?", "It is green.")
	b := newBrowser(t, w, "anna").login()
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	path, answer := "/m/"+string(asked.ID)+"/reply", url.Values{"text": {"precious"}}
	got := b.post(path, answer)
	if got.Code != http.StatusInsufficientStorage || !strings.Contains(got.Body.String(), "precious</textarea>") || !strings.Contains(textOf(got.Body.String()), "no space left") {
		t.Errorf("the answer on a full disk: %d\n%s", got.Code, textOf(got.Body.String()))
	}
	if sent := sentBy(t, w, "anna"); len(sent) != 0 {
		t.Errorf("anna sent %+v", sent)
	}
	if page := textOf(b.page("/search?q=green")); !strings.Contains(page, "disk is full") || !strings.Contains(page, "oacp list --text") {
		t.Errorf("a search on a full disk says %s", page)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if got := b.post(path, answer); got.Code != http.StatusSeeOther {
		t.Errorf("the answer when there is room: %d\n%s", got.Code, textOf(got.Body.String()))
	}
	if sent := sentBy(t, w, "anna"); len(sent) != 1 {
		t.Errorf("anna sent %d messages", len(sent))
	}
}
