package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/search"
)

const (
	// searchPage is how many hits a page shows.
	searchPage = 30
	// maxQuery is the size of the longest query, in bytes.
	maxQuery = 1000
)

// indexTime is how long a page waits for the index. What is not done then, the next page goes on with. Tests change it.
var indexTime = 2 * time.Second

// A searchView is the view model of a search.
type searchView struct {
	Query   string
	Problem *problem
	Hits    []hitView
	// Next is the address of the next page; empty if there is none.
	Next string
	// Stale says why changes may be missing. Building reports that it is because there are many: the page is soon loaded again.
	Stale    *problem
	Building bool
}

// A hitView is a message or record that was found.
type hitView struct {
	messageView
	Snippet []search.Fragment
	// Where names the box of a message, and Run has the path of the page of a record's run.
	Where string
	Run   []string
}

func (s *Server) searchPage(r *http.Request) (page, error) {
	v := searchView{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	p := page{Title: "Search", Template: "search", Section: "search", Query: v.Query}
	if len(v.Query) > maxQuery {
		return p, failure.Usagef("the query is longer than %d characters", maxQuery)
	}
	if v.Query != "" {
		p.Title = "Search: " + v.Query
		if err := s.search(r.Context(), &v, r.URL.Query().Get("after")); err != nil {
			told := problemOf(err)
			v.Problem = &told
		}
		if v.Building {
			p.Refresh = "1"
		}
	}
	p.Content = v
	return p, r.Context().Err()
}

// search adds the hits of the query after a position. If the index cannot be updated, they are those that it has.
func (s *Server) search(ctx context.Context, v *searchView, after string) error {
	q, err := search.ParseQuery(v.Query)
	if wrong, ok := errors.AsType[*search.QueryError](err); ok {
		return failure.Usagef("%w", wrong).WithHint(wrong.Fix)
	} else if err != nil {
		return err
	}
	updating, cancel := context.WithTimeout(ctx, indexTime)
	defer cancel()
	updateErr := s.index.Update(updating)
	if v.Building = errors.Is(updateErr, context.DeadlineExceeded) && ctx.Err() == nil; v.Building {
		updateErr = nil
	}
	found, err := s.index.Search(ctx, q, search.Page{Limit: searchPage, After: after})
	if v.Building {
		err = nil // there may be no index yet
	}
	if err = cmp.Or(updateErr, err); err != nil {
		err = failure.WithHint(fmt.Errorf("the search index: %w", err), "oacp list --text searches without an index")
	}
	switch {
	case err != nil && len(found.Hits) == 0:
		return err
	case err != nil:
		told := problemOf(err)
		v.Stale = &told
	}
	var shown []mailbox.Entry
	for _, hit := range found.Hits {
		v.Hits, shown = append(v.Hits, s.hitViewOf(hit)), append(shown, hit.Entry)
	}
	s.display(ctx, shown...)
	if found.Next != "" {
		v.Next = "?" + url.Values{"q": {v.Query}, "after": {found.Next}}.Encode()
	}
	return nil
}

func (s *Server) hitViewOf(hit search.Hit) hitView {
	v := hitView{messageView: s.viewOf(hit.Entry, nil), Snippet: hit.Snippet}
	if hit.Run != nil {
		v.Subject, v.Run = fmt.Sprintf("Record %d of run %d", hit.Line, hit.Run.ID), runPath(hit.Run)
	} else {
		v.Where = strings.ToLower(boxNames[hit.Box]) + " of " + string(hit.Agent)
	}
	return v
}
