package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/search"
)

const (
	// searchPage is how many hits a page shows.
	searchPage = 30
	// maxQuery is the size of the longest query, in bytes.
	maxQuery = 1000
)

// A finder searches the workspace: with the index or, without one, in all files.
type finder struct {
	w     *mailbox.Workspace
	warn  func(error)
	mutex sync.Mutex
	index *search.Index
}

// find returns a page of hits.
func (f *finder) find(ctx context.Context, q search.Query, p search.Page) (search.Result, error) {
	index, err := f.open(ctx)
	if err == nil {
		err = index.Update(ctx)
	}
	if err == nil {
		var found search.Result
		if found, err = index.Search(ctx, q, p); err == nil {
			return found, nil
		}
	}
	if !errors.Is(err, search.ErrLocked) && !errors.Is(err, search.ErrNewer) && ctx.Err() == nil {
		f.warn(err)
	}
	return search.Scan(ctx, f.w, nil, q, p)
}

func (f *finder) open(ctx context.Context) (*search.Index, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var err error
	if f.index == nil {
		f.index, err = search.Open(ctx, f.w, nil)
	}
	return f.index, err
}

// close closes the index.
func (f *finder) close() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.index == nil {
		return nil
	}
	return f.index.Close()
}

// A searchView is the view model of a search.
type searchView struct {
	Query   string
	Problem *problem
	Hits    []hitView
	// Next is the address of the next page; empty if there is none.
	Next string
}

// A hitView is a message or record that was found.
type hitView struct {
	messageView
	Snippet []search.Fragment
	// Where names the box or the run.
	Where string
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
	}
	p.Content = v
	return p, r.Context().Err()
}

// search adds the hits of the query after a position.
func (s *Server) search(ctx context.Context, v *searchView, after string) error {
	q, err := search.ParseQuery(v.Query)
	if wrong, ok := errors.AsType[*search.QueryError](err); ok {
		return failure.Usagef("%w", wrong).WithHint(wrong.Fix)
	} else if err != nil {
		return err
	}
	found, err := s.finder.find(ctx, q, search.Page{Limit: searchPage, After: after})
	if err != nil {
		return err
	}
	for _, hit := range found.Hits {
		v.Hits = append(v.Hits, hitViewOf(hit))
	}
	if found.Next != "" {
		v.Next = "?" + url.Values{"q": {v.Query}, "after": {found.Next}}.Encode()
	}
	return nil
}

func hitViewOf(hit search.Hit) hitView {
	m := schema.Message{From: schema.AgentName(hit.From), Type: schema.Type(hit.Type), Priority: schema.Priority(hit.Priority), Subject: hit.Subject}
	m.CreatedAt = schema.NewTimestamp(hit.CreatedAt)
	for _, to := range hit.To {
		m.To = append(m.To, schema.AgentName(to))
	}
	v := hitView{messageView: messageView{Message: &m}, Snippet: hit.Snippet}
	if hit.Err != nil {
		v.Problem = failure.OneLine(hit.Err.Error())
	}
	if hit.Run != nil {
		v.Where = "a bridge log"
	} else {
		v.ID = hit.ID
		v.Where = strings.ToLower(boxNames[hit.Box]) + " of " + string(hit.Agent)
	}
	return v
}
