package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// An export writes the pages of a server as files. It begins at the first page and follows what the templates link.
type export struct {
	server *Server
	dir    *os.Root
	// first returns the id that stands for the conversation of a message.
	first func(id string) string
	// at is the address of the page that is made, and queue has those that are still to be made.
	at    string
	queue []string
	known map[string]bool
	// titles are the conversations that were made.
	titles []title
}

// A title is a line of the page that finds conversations without a server.
type title struct {
	ID       string
	Subjects []string // of its messages, each once
	Latest   time.Time
}

// Export writes the pages that only show as files into a folder, which it makes if it is missing, and returns how many
// it wrote. Other files in the folder are an error. The first page is written last. Progress is called after each page
// with the numbers of those that are written and known.
func Export(ctx context.Context, w *mailbox.Workspace, dir string, options Options, progress func(done, known int)) (pages int, err error) {
	options.Person = ""
	s, err := New(w, options)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		return 0, failure.WithHint(cmp.Or(err, fmt.Errorf("%s is not empty", dir)), "name a new folder")
	}
	x := &export{server: s, dir: root, known: make(map[string]bool)}
	x.first = func(id string) string {
		first, err := s.threads.first(ctx, schema.ID(id))
		if err != nil && ctx.Err() == nil {
			options.Warn(err)
		}
		return cmp.Or(string(first), id)
	}
	if s.templates, err = parseTemplates(x.link, x.pageLink, true); err != nil {
		return 0, err
	}
	s.shown = func(p page) {
		if d, ok := p.Content.(discussion); ok && d.Page == 1 {
			line := title{ID: d.ID, Subjects: []string{d.Subject}}
			for _, m := range d.Messages {
				if line.Latest = m.CreatedAt.Time(); !slices.Contains(line.Subjects, m.Subject) {
					line.Subjects = append(line.Subjects, m.Subject)
				}
			}
			x.titles = append(x.titles, line)
		}
	}
	s.handle("GET /titles", s.page(x.titlesPage))
	return x.write(ctx, progress)
}

func (x *export) write(ctx context.Context, progress func(done, known int)) (pages int, err error) {
	first, err := x.make(ctx, fromRoot())
	for err == nil && len(x.queue) > 0 {
		address := x.queue[0]
		x.queue = x.queue[1:]
		var data []byte
		if data, err = x.make(ctx, address); err == nil {
			err = x.save(fileOf(address), data)
		}
		pages++
		progress(pages, len(x.known))
	}
	var titles []byte
	if err == nil {
		titles, err = x.make(ctx, fromRoot("titles")) // when all are known
	}
	if err == nil {
		err = x.save(fileOf(fromRoot("titles")), titles)
	}
	if err == nil {
		err = x.save(fileOf(fromRoot()), first)
	}
	return pages + 2, err
}

// make returns what the server answers for an address. What it cannot show, its answer says.
func (x *export) make(ctx context.Context, address string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	x.at, x.known[address] = address, true
	var answer answer
	x.server.mux.ServeHTTP(&answer, r)
	return answer.Bytes(), context.Cause(ctx)
}

// An answer keeps what a server answers.
type answer struct {
	bytes.Buffer
	header http.Header
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = make(http.Header)
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(int) {}

func (x *export) save(file string, data []byte) error {
	if err := x.dir.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	return x.dir.WriteFile(file, data, 0o644)
}

// link returns the address of a page, relative to the page that is made.
func (x *export) link(parts ...string) string {
	if len(parts) == 2 && parts[0] == "c" {
		parts[1] = x.first(parts[1])
	}
	return x.linkTo(fromRoot(parts...))
}

// pageLink returns the address of another part of the list on the page that is made.
func (x *export) pageLink(number int) string {
	address, _, _ := strings.Cut(x.at, "?")
	if number > 1 {
		address += "?page=" + strconv.Itoa(number)
	}
	return x.linkTo(address)
}

func (x *export) linkTo(address string) string {
	if !x.known[address] && address != fromRoot("titles") {
		x.known[address] = true
		x.queue = append(x.queue, address)
	}
	relative, err := filepath.Rel(filepath.Dir(fileOf(x.at)), fileOf(address))
	if err != nil {
		return "" // both are relative
	}
	return (&url.URL{Path: filepath.ToSlash(relative)}).String()
}

// fileOf returns the file for an address of the server.
func fileOf(address string) string {
	place, query, _ := strings.Cut(address, "?page=")
	place, _ = url.PathUnescape(strings.TrimPrefix(place, "/")) // fromRoot has escaped it
	parts := strings.Split(place, "/")
	switch {
	case place == "":
		return "index.html"
	case parts[0] == "static", strings.HasSuffix(place, ".svg"), parts[0] == "a" && len(parts) == 4:
		return place
	case parts[len(parts)-1] == "json":
		return strings.TrimSuffix(place, "/json") + ".json"
	case query != "":
		return place + "-" + query + ".html"
	}
	return place + ".html"
}

func (x *export) titlesPage(*http.Request) (page, error) {
	slices.SortStableFunc(x.titles, func(a, b title) int { return b.Latest.Compare(a.Latest) })
	return page{Title: "Search", Template: "titles", Section: "titles", Content: x.titles}, nil
}
