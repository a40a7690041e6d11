package web

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/search"
)

// TestSearchWithoutUpdate checks that a search shows what the index has if it cannot be updated, and why.
func TestSearchWithoutUpdate(t *testing.T) {
	w := newWorkspace(t)
	ask(t, w, "Deploy?", "It is green.")
	b := newBrowser(t, w, "anna").login()
	if page := b.page("/search?q=green"); !strings.Contains(page, "<mark>green</mark>") || strings.Contains(page, "the search index") {
		t.Errorf("got %s", page)
	}
	if page := b.page("/search?q=yes"); !strings.Contains(page, "Deploy?") {
		t.Errorf("a choice is not found: %s", page)
	}
	lock := durable.NewLock(filepath.Join(w.Dir(), filepath.FromSlash(search.Folder), "lock"))
	if locked, err := lock.TryLock(); err != nil || !locked {
		t.Fatal(locked, err)
	}
	defer lock.Unlock()
	for query, found := range map[string]bool{"green": true, "nowhere": false} {
		page := b.page("/search?q=" + query)
		if strings.Contains(page, "<mark>") != found || !strings.Contains(page, "another process is writing the search index") || !strings.Contains(page, "oacp list --text") {
			t.Errorf("%s: got %s", query, page)
		}
	}
}

// TestSearchWhileBuilding checks that a search does not wait for an index that takes long, and is made again.
func TestSearchWhileBuilding(t *testing.T) {
	defer func(was time.Duration) { indexTime = was }(indexTime)
	indexTime = 0
	w := newWorkspace(t)
	ask(t, w, "Deploy?", "It is green.")
	b := newBrowser(t, w, "anna").login()
	const refresh = `<meta http-equiv="refresh" content="1">`
	if page := b.page("/search?q=green"); !strings.Contains(page, refresh) || !strings.Contains(page, "The index is being built") || !strings.Contains(page, "Nothing so far") {
		t.Errorf("got %s", page)
	}
	indexTime = time.Minute
	if page := b.page("/search?q=green"); strings.Contains(page, refresh) || !strings.Contains(page, "<mark>green</mark>") {
		t.Errorf("then got %s", page)
	}
}

// TestSearchFindsRecords checks that a search finds the records of the runs that the pages show, and leads to their run.
func TestSearchFindsRecords(t *testing.T) {
	w, runs, _ := furnished(t)
	b := newBrowser(t, w, "anna").login()
	if page := b.page("/search?q=rate+from:user"); !strings.Contains(page, "Nothing has that") {
		t.Errorf("a server without runs finds %s", textOf(page))
	}
	b.server.options.Runs = runs
	page := b.page("/search?q=rate+from:user")
	link := "/runs/p/" + runs.Repositories[0] + "/1"
	if !strings.Contains(page, `href="`+link+`">Record 1 of run 1</a>`) {
		t.Errorf("the search finds %s", page)
	}
	if page := b.page(link); !strings.Contains(page, "Limit the rate") {
		t.Errorf("the run is %s", textOf(page))
	}
}
