package web

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strconv"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/search"
)

//go:embed templates static
var files embed.FS

// Options says for whom a server works.
type Options struct {
	// Person is the agent in whose name messages are sent; empty if nothing can be sent.
	Person schema.AgentName
	// Runs are those that the pages show.
	Runs Runs
	// WorkingDir is the folder in which the doctor looks for settings of sessions.
	WorkingDir string
	// Warn reports what goes wrong outside a request.
	Warn func(error)
}

// A Server makes the pages of a workspace.
type Server struct {
	w         *mailbox.Workspace
	options   Options
	project   string
	templates *template.Template
	mux       *http.ServeMux
	// patterns are those that mux knows.
	patterns []string
	boxes    boxes
	threads  threads
	index    *search.Index
	hub      hub
	// feed is the secret of the feed; empty if there is none.
	feed string
	// shown, if not nil, is called with each page. An export sets it; its requests pass no guard.
	shown func(page)
}

// New returns the server of a workspace, which the caller closes after it.
func New(w *mailbox.Workspace, options Options) (*Server, error) {
	s := &Server{w: w, options: options, project: project.Name(w), mux: http.NewServeMux(), boxes: boxes{w: w}}
	s.index = search.New(w, func() ([]bridge.Run, error) { return bridge.Runs(s.options.Runs.Root, s.options.Runs.Repositories...) })
	s.threads.boxes = &s.boxes
	var err error
	if s.templates, err = parseTemplates(fromRoot, func(page int) string { return "?page=" + strconv.Itoa(page) }, false); err != nil {
		return nil, err
	}
	if s.options.Person != "" {
		if s.feed, err = feedSecret(w, s.options.Person); err != nil {
			options.Warn(fmt.Errorf("there is no feed: %w", err))
		}
	}
	return s, s.route()
}

// Close releases what the server holds. Nothing may be asked any more.
func (s *Server) Close() error { return s.index.Close() }

// handle declares what the server answers to a pattern.
func (s *Server) handle(pattern string, handler http.HandlerFunc) {
	s.patterns = append(s.patterns, pattern)
	s.mux.HandleFunc(pattern, handler)
}

// route declares what the server answers. Each handler has passed the guard.
func (s *Server) route() error {
	static, err := fs.Sub(files, "static")
	if err != nil {
		return err
	}
	serveStatic := http.StripPrefix("/static/", http.FileServerFS(static))
	s.handle("GET /static/{name}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private, max-age=3600") // its address has its version
		serveStatic.ServeHTTP(w, r)
	})
	s.handle("GET /events", s.serveEvents)
	s.handle("GET /{$}", s.page(s.homePage))
	s.handle("GET /search", s.page(s.searchPage))
	s.handle("GET /c/{id}", s.page(func(r *http.Request) (page, error) { return s.discussion(r, nil) }))
	s.handle("GET /m/{id}", s.page(s.messagePage))
	s.handle("GET /m/{id}/json", s.serveJSON)
	s.handle("POST /m/{id}/reply", s.reply)
	s.handle("POST /m/{id}/done", s.acknowledge)
	s.handle("GET /a/{agent}", func(w http.ResponseWriter, r *http.Request) {
		redirect(w, r, fromRoot("a", r.PathValue("agent"), string(mailbox.Inbox)))
	})
	s.handle("GET /a/{agent}/{box}", s.page(s.mailboxPage))
	s.handle("GET /a/{agent}/{box}/{name}", s.serveBoxFile)
	s.handle("POST /a/{agent}/{box}/restore", s.restore)
	s.handle("GET /doctor", s.page(s.doctorPage))
	runPages{s}.route()
	s.handle("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, http.StatusNotFound, "There is no such page.")
	})
	return nil
}
