package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// shutdownTimeout is how long calls under way may take when the server has to end.
const shutdownTimeout = 5 * time.Second

// endpoint is the path that clients talk to.
const endpoint = "/mcp"

// HTTPOptions are the options of a server over HTTP.
type HTTPOptions struct {
	// Address is the host and port to listen on; port 0 takes a free one.
	Address string
	// Token is what clients have to present as bearer token: at least 16 visible ASCII characters.
	Token string
	// AllowRemote permits an address that other machines can reach. There is no encryption: put a
	// proxy that has it in front.
	AllowRemote bool
}

// ErrRemoteAddress is returned for an address that other machines can reach, unless that is
// allowed.
var ErrRemoteAddress = errors.New("other machines can reach this address")

// Listener answers clients over streamable HTTP.
type Listener struct {
	listener net.Listener
	ending   func() // ends waits for messages
	server   *http.Server
}

// Listen takes the address, and returns ErrRemoteAddress if other machines can reach it. Serve
// answers.
//
// Every request needs the token. A request from a web page of another origin is refused first, and
// so is one whose Host is a foreign name (DNS rebinding).
func (s *Server) Listen(options HTTPOptions) (*Listener, error) {
	if err := checkToken(options.Token); err != nil {
		return nil, err
	}
	address, err := net.ResolveTCPAddr("tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	local := address.IP.IsLoopback()
	if !local && !options.AllowRemote {
		return nil, fmt.Errorf("listening on %s: %w", options.Address, ErrRemoteAddress)
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	host, _, _ := net.SplitHostPort(options.Address) // which ResolveTCPAddr could split
	longest := callTimeout + seconds(maxWait).wait() + time.Minute
	handler := http.NewServeMux()
	handler.Handle(endpoint, mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s.protocol },
		&mcp.StreamableHTTPOptions{
			// Calls are independent, so there are no sessions that could pile up.
			Stateless: true, JSONResponse: true,
			MaxRequestBodyBytes: maxRequest,
			// The guard checks hosts, and knows the name in the address.
			DisableLocalhostProtection:   true,
			PropagateRequestCancellation: true,
		}))
	return &Listener{
		listener: listener, ending: s.stop,
		server: &http.Server{
			Handler: &guard{next: handler, token: options.Token, host: host, local: local},
			// Both limits go on while a call waits for messages.
			ReadHeaderTimeout: 10 * time.Second, ReadTimeout: longest, WriteTimeout: longest,
			IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
			ErrorLog: log.New(io.Discard, "", 0), // it reports broken connections
		},
	}, nil
}

// URL is where clients find the tools, with the port that was taken.
func (l *Listener) URL() string { return "http://" + l.listener.Addr().String() + endpoint }

// Serve answers until ctx is done, which is not an error. Calls under way then have five seconds to
// finish.
func (l *Listener) Serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- l.server.Serve(l.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", l.URL(), err)
	case <-ctx.Done():
	}
	l.ending()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := l.server.Shutdown(patience)
	if errors.Is(err, context.DeadlineExceeded) {
		err = l.server.Close()
	}
	<-failed // http.ErrServerClosed
	if err != nil {
		return fmt.Errorf("ending the server of %s: %w", l.URL(), err)
	}
	return nil
}

// Close releases the address of a listener that is not served.
func (l *Listener) Close() error { return l.listener.Close() }

// A guard lets only requests through that a client of ours makes.
type guard struct {
	next  http.Handler
	token string
	// host is the name in the listening address. local reports whether it is this machine's own.
	host  string
	local bool
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !g.expects(r.Host):
		http.Error(w, fmt.Sprintf("host %q is not served here: use the address that oacp mcp printed", r.Host), http.StatusForbidden)
	case !fromHere(r):
		http.Error(w, "requests from web pages are not answered", http.StatusForbidden)
	case !g.authorized(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="oacp"`)
		http.Error(w, "the header Authorization: Bearer TOKEN is missing, or its token is not the one of this server", http.StatusUnauthorized)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// expects reports whether a Host can only mean this server. A name that is not ours may have been
// made to lead here by its owner; an address cannot.
func (g *guard) expects(hostPort string) bool {
	host := hostPort
	if name, _, err := net.SplitHostPort(hostPort); err == nil {
		host = name
	}
	if address := net.ParseIP(strings.Trim(host, "[]")); address != nil {
		return !g.local || address.IsLoopback()
	}
	return strings.EqualFold(host, "localhost") || g.host != "" && strings.EqualFold(host, g.host)
}

// fromHere reports whether a request comes from no web page, or from one that this very address
// served.
func fromHere(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	return len(origins) == 0 || len(origins) == 1 && strings.EqualFold(origins[0], "http://"+r.Host)
}

func (g *guard) authorized(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(token)), []byte(g.token)) == 1
}

// NewToken returns a token that cannot be guessed: 26 letters and digits with at least 128 random
// bits.
func NewToken() string { return rand.Text() }

// checkToken returns an error for a token that is easily guessed or does not fit into a header.
func checkToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token holds a character that is not visible ASCII")
	}
	if len(token) < 16 {
		return fmt.Errorf("the token has %d characters, and needs at least 16", len(token))
	}
	return nil
}
