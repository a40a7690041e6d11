package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of what a client may ask for.
const (
	// maxForm is the size of a form. A message of the greatest size fits, even if each byte is written as three.
	maxForm     = 4 << 20
	maxSessions = 32
	maxRunning  = 64
	sessionLife = 30 * 24 * time.Hour
)

// policy lets pages load only what the server has, and run no script but its file.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// A guard lets requests through that come from the browser of the person, from a page of this server.
type guard struct {
	server *Server
	place  place
	port   string
	origin string
	invite func(url string)
	cross  *http.CrossOriginProtection
	// all, posts and logins bound the rates of requests.
	all, posts, logins *rate.Limiter
	running            chan struct{}

	mutex    sync.Mutex
	token    string // lets one browser in
	sessions map[[sha256.Size]byte]*session
}

// A session is that of one browser.
type session struct {
	csrf string
	used time.Time
}

func newGuard(s *Server, address *net.TCPAddr, p place, invite func(string)) *guard {
	g := &guard{
		server: s, place: p, invite: invite, port: fmt.Sprint(address.Port), cross: http.NewCrossOriginProtection(),
		all: rate.NewLimiter(50, 300), posts: rate.NewLimiter(2, 30), logins: rate.NewLimiter(1, 10),
		running: make(chan struct{}, maxRunning), sessions: make(map[[sha256.Size]byte]*session),
	}
	g.origin = "http://" + address.String()
	switch {
	case p.public != nil:
		g.origin = p.public.Scheme + "://" + p.public.Host
	case p.certificate != nil:
		g.origin = "https://" + address.String()
	}
	return g
}

// inviteOne makes the token that lets the next browser in, and returns its URL.
func (g *guard) inviteOne() string {
	g.mutex.Lock()
	g.token = rand.Text()
	url := g.origin + "/login?token=" + g.token
	g.mutex.Unlock()
	g.invite(url)
	return url
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.setHeaders(w.Header())
	refuse := func(status int, why string) { g.server.refuse(w, r, status, why) }
	if !g.mayConnect(r.RemoteAddr) {
		refuse(http.StatusForbidden, "Only the proxy may ask this server.")
		return
	}
	if !g.isOwnHost(r.Host) {
		refuse(http.StatusForbidden, "This host is not served here: use the address that oacp web printed.")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, HEAD, POST")
		refuse(http.StatusMethodNotAllowed, "This method is not served.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if !g.all.Allow() || r.Method == http.MethodPost && !g.posts.Allow() {
		w.Header().Set("Retry-After", "1")
		refuse(http.StatusTooManyRequests, "Too many requests. Wait a second and try again.")
		return
	}
	if err := g.cross.Check(r); err != nil || !g.fromHere(r) {
		refuse(http.StatusForbidden, "Requests from pages of other servers are not answered.")
		return
	}
	select {
	case g.running <- struct{}{}:
		defer func() { <-g.running }()
	default:
		refuse(http.StatusServiceUnavailable, "Too many requests at the same time.")
		return
	}
	g.admit(w, r)
}

// admit answers a request of a known browser, lets a new one in that has the token, and refuses others.
func (g *guard) admit(w http.ResponseWriter, r *http.Request) {
	switch current := g.sessionOf(r); {
	case r.URL.Path == "/login" && r.Method != http.MethodPost:
		g.login(w, r)
	case strings.HasPrefix(r.URL.Path, "/static/"):
		g.server.mux.ServeHTTP(w, r)
	case strings.HasPrefix(r.URL.Path, feedPrefix):
		g.server.serveFeed(w, r, g.origin)
	case current == nil:
		g.server.refuse(w, r, http.StatusUnauthorized, "This browser is not logged in: open the last URL that oacp web printed.")
	case r.Method == http.MethodPost && subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(current.csrf)) != 1:
		status, why := http.StatusForbidden, "The form is not from this session: load the page again."
		if r.ContentLength != 0 && len(r.PostForm) == 0 {
			status, why = http.StatusRequestEntityTooLarge, "The form cannot be read, or is too large."
		}
		g.server.refuse(w, r, status, why)
	default:
		r = r.WithContext(context.WithValue(r.Context(), sessionKey{}, current))
		if err := g.server.checkThere(); err != nil {
			g.server.fail(w, r, err)
			return
		}
		g.server.mux.ServeHTTP(w, r)
	}
}

type sessionKey struct{}

// csrfOf returns the token of the forms for the browser that asks.
func csrfOf(r *http.Request) string {
	if s, ok := r.Context().Value(sessionKey{}).(*session); ok {
		return s.csrf
	}
	return ""
}

// login lets a browser in that has the token, which is then used up. The page after it leads to the start: a redirect
// would count as one of the program that opened the URL, and such requests have no strict cookies.
func (g *guard) login(w http.ResponseWriter, r *http.Request) {
	if !g.logins.Allow() {
		g.server.refuse(w, r, http.StatusTooManyRequests, "Too many attempts. Wait a second and try again.")
		return
	}
	given := r.URL.Query().Get("token")
	g.mutex.Lock()
	ok := g.token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) == 1
	if !ok || r.Method == http.MethodHead {
		g.mutex.Unlock()
		g.server.refuse(w, r, http.StatusUnauthorized, "The URL is wrong, or was used before: open the last one that oacp web printed.")
		return
	}
	g.token = ""
	id := g.newSession()
	g.mutex.Unlock()
	http.SetCookie(w, &http.Cookie{
		Name: g.cookieName(), Value: id, Path: "/", HttpOnly: true, Secure: g.isSecure(), SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLife / time.Second),
	})
	g.server.show(w, r, http.StatusOK, page{Title: "Logged in", Template: "login", Refresh: "0;url=/"})
	g.inviteOne()
}

// newSession makes a session, in place of the one that was not used for the longest time if there are too many. The
// caller holds the mutex.
func (g *guard) newSession() (id string) {
	for len(g.sessions) >= maxSessions {
		var oldest [sha256.Size]byte
		at := time.Now()
		for key, s := range g.sessions {
			if !s.used.After(at) {
				oldest, at = key, s.used
			}
		}
		delete(g.sessions, oldest)
	}
	id = rand.Text()
	g.sessions[sha256.Sum256([]byte(id))] = &session{csrf: rand.Text(), used: time.Now()}
	return id
}

// sessionOf returns the session that the cookie names, or nil.
func (g *guard) sessionOf(r *http.Request) *session {
	cookie, err := r.Cookie(g.cookieName())
	if err != nil {
		return nil
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	key := sha256.Sum256([]byte(cookie.Value))
	s := g.sessions[key]
	if s == nil || time.Since(s.used) > sessionLife {
		delete(g.sessions, key)
		return nil
	}
	s.used = time.Now()
	return s
}

// cookieName has the port, because the servers of one machine share their cookies.
func (g *guard) cookieName() string {
	if g.isSecure() {
		return "__Host-oacp-" + g.port
	}
	return "oacp-" + g.port
}

func (g *guard) isSecure() bool { return strings.HasPrefix(g.origin, "https://") }

func (g *guard) setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, the Origin of a form would be null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if g.isSecure() {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// mayConnect reports whether the other end of a connection may ask.
func (g *guard) mayConnect(remote string) bool {
	if !g.place.proxy.IsValid() {
		return true
	}
	from, err := netip.ParseAddrPort(remote)
	return err == nil && from.Addr().Unmap() == g.place.proxy.Unmap()
}

// isOwnHost reports whether a Host can only mean this server. Anyone can make another name resolve to its address.
func (g *guard) isOwnHost(hostPort string) bool {
	if g.place.public != nil {
		return strings.EqualFold(hostPort, g.place.public.Host)
	}
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		host, port = hostPort, map[bool]string{true: "443", false: "80"}[g.isSecure()]
	}
	host = strings.Trim(host, "[]")
	if port != g.port {
		return false
	}
	if address := net.ParseIP(host); address.IsLoopback() || strings.EqualFold(host, "localhost") {
		return g.place.local || g.place.certificate != nil
	}
	return g.place.certificate != nil && names(g.place.certificate, host)
}

// fromHere reports whether a request is not one that a page of another server makes: such a page may only have a link.
func (g *guard) fromHere(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		scheme, _, _ := strings.Cut(g.origin, "://")
		return strings.EqualFold(origin, scheme+"://"+r.Host)
	}
	switch site := cmp.Or(r.Header.Get("Sec-Fetch-Site"), "none"); site {
	case "none", "same-origin":
		return true
	}
	return r.Method != http.MethodPost && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}
