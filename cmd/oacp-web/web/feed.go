package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// feedPrefix is the path of the feed without its last part, the secret that replaces a session.
const feedPrefix = "/feed/"

// feedSecret returns the secret of a person's feed. It makes one if there is none, as after its file was removed.
func feedSecret(w *mailbox.Workspace, person schema.AgentName) (string, error) {
	const folder = schema.StateName + "/web"
	name := folder + "/" + string(person) + ".feed"
	data, err := durable.ReadFile(w.Root(), w.Dir(), name, 100)
	if err == nil && len(data) == len(rand.Text()) {
		return string(data), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	secret := rand.Text()
	if err = w.MakeStateFolder(folder); err == nil {
		err = durable.ReplaceFile(w.Root(), w.Dir(), name, []byte(secret), 0o600)
	}
	return secret, err
}

// An atomFeed is a feed; see RFC 4287.
type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Link    atomLink    `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomEntry struct {
	ID      string   `xml:"id"`
	Title   string   `xml:"title"`
	Updated string   `xml:"updated"`
	Author  string   `xml:"author>name"`
	Link    atomLink `xml:"link"`
	Summary string   `xml:"summary"`
}

type atomLink struct {
	Address string `xml:"href,attr"`
}

// serveFeed serves a feed of the person's pending messages. Its links begin with origin.
func (s *Server) serveFeed(w http.ResponseWriter, r *http.Request, origin string) {
	given := strings.TrimPrefix(r.URL.Path, feedPrefix)
	if s.feed == "" || r.Method == http.MethodPost || subtle.ConstantTimeCompare([]byte(given), []byte(s.feed)) != 1 {
		s.refuse(w, r, http.StatusNotFound, "There is no such feed: the pages link the one there is.")
		return
	}
	err := s.checkThere()
	var feed *atomFeed
	if err == nil {
		feed, err = s.waitingFeed(r.Context(), origin)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	data, err := xml.Marshal(feed)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/atom+xml; charset=utf-8")
	_, _ = w.Write(append([]byte(xml.Header), data...)) // the client may be gone
}

func (s *Server) waitingFeed(ctx context.Context, origin string) (*atomFeed, error) {
	person := string(s.options.Person)
	feed := &atomFeed{ID: feedID(s.w.Dir(), person), Title: "Waits for " + person + " · " + visible.Line(s.project), Link: atomLink{origin + "/"}}
	var h home
	if err := s.addWaiting(ctx, &h); err != nil {
		return nil, err
	}
	latest := time.Unix(0, 0)
	for _, m := range h.Waiting {
		e := atomEntry{
			ID: feedID(s.w.Dir(), string(m.ID), m.Subject), Title: visible.Line(m.Subject), Updated: m.CreatedAt.Time().UTC().Format(time.RFC3339),
			Author: visible.Line(string(m.From)), Link: atomLink{origin + "/"}, Summary: m.Excerpt,
		}
		if m.ID != "" {
			e.Link.Address = origin + fromRoot("c", string(m.ID))
		}
		if m.CreatedAt.Time().After(latest) {
			latest = m.CreatedAt.Time()
		}
		feed.Entries = append(feed.Entries, e)
	}
	feed.Updated = latest.UTC().Format(time.RFC3339)
	return feed, nil
}

// feedID returns an id that always stands for the same thing, wherever the server is.
func feedID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8, see RFC 9562
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
