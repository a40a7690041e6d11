package web

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A page is what the layout shows. Content is the view model of its template.
type page struct {
	Title    string
	Template string
	Content  any
	// Section is the entry of the navigation that the page belongs to.
	Section string

	// Refresh is when the browser loads another page, or this one again; see the meta element.
	Refresh string
	// Query is what the search box holds.
	Query string
	// LoggedIn is false for a browser that must learn nothing about the workspace.
	LoggedIn bool

	// The server sets the rest. Main is what the template makes of the content.
	Main    template.HTML
	Project string
	Person  schema.AgentName
	// Waiting counts what waits for the person.
	Waiting int
	CSRF    string
	// Feed is the path of the person's feed, empty if there is none.
	Feed string
}

// A builder makes the page that a request asks for.
type builder func(*http.Request) (page, error)

// page returns the handler that shows what the builder makes.
func (s *Server) page(build builder) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := build(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.show(w, r, http.StatusOK, p)
	}
}

// show writes a page. It is complete before the first byte is sent.
func (s *Server) show(w http.ResponseWriter, r *http.Request, status int, p page) {
	p.CSRF = csrfOf(r)
	p.LoggedIn = p.CSRF != "" || s.shown != nil
	if s.shown != nil {
		s.shown(p)
	}
	if p.LoggedIn {
		p.Project, p.Person = s.project, s.options.Person
	}
	if p.Person != "" {
		waiting, _ := s.boxes.names(p.Person, mailbox.Inbox) // the page says what cannot be read
		p.Waiting = len(waiting)
		if s.feed != "" {
			p.Feed = feedPrefix + s.feed
		}
	}
	var main, out bytes.Buffer
	err := s.templates.ExecuteTemplate(&main, p.Template, p)
	if p.Main = template.HTML(main.String()); err == nil {
		err = s.templates.ExecuteTemplate(&out, "layout", p)
	}
	if err != nil {
		s.options.Warn(fmt.Errorf("page %s: %w", r.URL.Path, err))
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // the client may be gone
}

// A problem is an error as a page shows it.
type problem struct {
	Lines []string
	Hint  string
	// Text is what the person wrote, which must not be lost.
	Text string
}

func problemOf(err error) problem {
	f := failure.Of(err)
	return problem{Lines: f.Lines(), Hint: f.Hint}
}

// fail shows the page of an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	p.Text = r.PostFormValue("text")
	s.show(w, r, statusOf(err), page{Title: "Not possible", Template: "error", Content: p})
}

// refuse shows that a request is not answered, and why.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	// What the person wrote is not lost if her session has ended meanwhile.
	p := problem{Lines: []string{why}, Text: r.PostFormValue("text")}
	s.show(w, r, status, page{Title: http.StatusText(status), Template: "error", Content: p})
}

// fileVersion tells browsers whether their stylesheet and script are those of this program.
var fileVersion = func() string {
	sum := sha256.New()
	for _, name := range []string{"static/style.css", "static/app.js"} {
		data, _ := files.ReadFile(name) // it is embedded
		sum.Write(data)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6])
}()

// A scope is what a part of a page shows, with the page.
type scope struct {
	Page page
	Item any
}

// A moment is a time as pages show it.
type moment struct{ Machine, Exact, Age string }

func momentOf(at, now time.Time, exact bool) moment {
	m := moment{at.UTC().Format(time.RFC3339), at.Local().Format(time.DateTime), spelling.Age(at, now) + " ago"}
	switch {
	case exact:
		m.Age = at.UTC().Format("2006-01-02 15:04 UTC")
	case at.After(now):
		m.Age = "in " + spelling.Age(now, at)
	}
	return m
}

// A paging is which page of a list is shown, of how many. The first page has the newest items.
type paging struct{ Page, Pages int }

// pagingOf returns the page that a request asks for, and which items it shows. Anything that is not the number of a page is
// the nearest one.
func pagingOf(r *http.Request, items, size int) (p paging, from, to int) {
	p.Page, _ = strconv.Atoi(r.URL.Query().Get("page"))
	p.Pages = max(1, (items+size-1)/size)
	p.Page = max(1, min(p.Page, p.Pages))
	return p, (p.Page - 1) * size, min(items, p.Page*size)
}

// A linker returns the address of a page, which the parts of its path name.
type linker func(parts ...string) string

// fromRoot links pages of the server.
func fromRoot(parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return "/" + strings.Join(parts, "/")
}

// parseTemplates returns the templates of the pages, and their layout. Static pages have no server to ask.
func parseTemplates(link linker, numbered func(page int) string, static bool) (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{
		"link": func(parts ...any) string {
			texts := make([]string, len(parts))
			for i, part := range parts {
				texts[i] = fmt.Sprint(part)
			}
			return link(texts...)
		},
		"asset":    func(name string) string { return link("static", name) + "?v=" + fileVersion },
		"line":     func(text any) string { return visible.Line(fmt.Sprint(text)) },
		"names":    func(names []schema.AgentName) string { return visible.Line(spelling.Join(names)) },
		"words":    func(name any) string { return strings.ReplaceAll(fmt.Sprint(name), "_", " ") },
		"plural":   spelling.Plural,
		"add":      func(a, b int) int { return a + b },
		"in":       func(p page, item any) scope { return scope{p, item} },
		"moment":   func(at time.Time) moment { return momentOf(at, time.Now(), static) },
		"numbered": numbered,
		"now":      time.Now,
		"static":   func() bool { return static },
		"links":    func(parts []string) string { return link(slices.Clone(parts)...) },
		"lines":    visible.Lines,
		"took":     func(d time.Duration) string { return seconds(d.Seconds()).String() },
		"tokens":   func(u agent.Usage) string { return command.Count(u.InputTokens + u.OutputTokens) },
		"cost":     func(u agent.Usage) string { return command.Cost(u.CostUSD) },
		"excerpt":  excerpt,
	}).ParseFS(files, "templates/*.html")
}
