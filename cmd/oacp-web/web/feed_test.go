package web

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestFeed checks that the secret URL serves the feed without a session, even after a restart of the server.
func TestFeed(t *testing.T) {
	w := newWorkspace(t)
	asked := ask(t, w, "Deploy <now>?", "It is **green** \x01.")
	b := newBrowser(t, w, "anna").login()
	_, link, _ := strings.Cut(b.page("/"), `<a href="`+feedPrefix)
	secret, _, _ := strings.Cut(link, `"`)
	reader := newBrowser(t, w, "anna") // of another server, without a session
	got := reader.get(feedPrefix + secret)
	var feed atomFeed
	if err := xml.Unmarshal(got.Body.Bytes(), &feed); got.Code != http.StatusOK || err != nil {
		t.Fatalf("the feed: %d, %v\n%s", got.Code, err, got.Body)
	}
	if len(feed.Entries) != 1 || feed.Entries[0].Title != "Deploy <now>?" || feed.Entries[0].Author != "codex" ||
		feed.Entries[0].Link.Address != "http://"+address+"/c/"+string(asked.ID) || feed.Updated != feed.Entries[0].Updated {
		t.Errorf("the feed is %+v", feed)
	}
	if id := feed.Entries[0].ID; !strings.HasPrefix(id, "urn:uuid:") || id == feed.ID {
		t.Errorf("the ids are %s and %s", feed.ID, id)
	}
	for _, path := range []string{feedPrefix, feedPrefix + secret + "x", feedPrefix + strings.ToLower(secret)} {
		if got := reader.get(path); got.Code != http.StatusNotFound || strings.Contains(got.Body.String(), "Deploy") {
			t.Errorf("%s: %d\n%s", path, got.Code, got.Body)
		}
	}
	if got := b.post(feedPrefix+secret, url.Values{}); got.Code != http.StatusNotFound {
		t.Errorf("a form sent to the feed: %d", got.Code)
	}
	reader.header.Set("Host", "evil.example:7070")
	if got := reader.get(feedPrefix + secret); got.Code != http.StatusForbidden {
		t.Errorf("a foreign host: %d", got.Code)
	}
	if found := newBrowser(t, w, "").get(feedPrefix); found.Code != http.StatusNotFound {
		t.Errorf("a server without a person has a feed: %d", found.Code)
	}
	if info, err := w.Root().Stat("state/web/anna.feed"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret: %v, %v", info, err)
	}
	if _, err := w.Pending(t.Context(), string(asked.ID), "anna"); err != nil {
		t.Errorf("the feed took the message: %v", err)
	}
}
