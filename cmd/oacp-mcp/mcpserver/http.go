package mcpserver

import (
	"context"
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

// endpoint is the path of the server's URL.
const endpoint = "/mcp"

// ErrRemoteAddress reports an address that other machines can reach. The server refuses it because the
// connection is not encrypted.
var ErrRemoteAddress = errors.New("other machines can reach this address")

// Listener answers clients over streamable HTTP.
type Listener struct {
	listener net.Listener
	server   *http.Server
}

// Listen listens on an address, a host and a port; port 0 picks a free port. The listener answers no request
// before Serve. The error matches ErrRemoteAddress if other machines can reach the address.
//
// Every request needs the token as bearer token. The token has at least 16 visible ASCII characters. A request from a
// web page of another origin is refused, and so is one whose Host names another machine (DNS rebinding).
func (s *Server) Listen(hostPort, token string) (*Listener, error) {
	if err := checkToken(token); err != nil {
		return nil, err
	}
	address, err := net.ResolveTCPAddr("tcp", hostPort)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if !address.IP.IsLoopback() {
		return nil, fmt.Errorf("listening on %s: %w", hostPort, ErrRemoteAddress)
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	longest := callTimeout + seconds(maxWait).wait() + time.Minute
	handler := http.NewServeMux()
	handler.Handle(endpoint, mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s.protocol },
		&mcp.StreamableHTTPOptions{
			// Calls are independent, so there are no sessions that could pile up.
			Stateless: true, JSONResponse: true,
			MaxRequestBodyBytes:          maxRequest,
			DisableLocalhostProtection:   true, // the guard checks hosts
			PropagateRequestCancellation: true,
		}))
	return &Listener{
		listener: listener,
		server: &http.Server{
			Handler: &guard{next: handler, token: token},
			// A call that waits for messages counts against both limits.
			ReadHeaderTimeout: 10 * time.Second, ReadTimeout: longest, WriteTimeout: longest,
			IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
			ErrorLog: log.New(io.Discard, "", 0), // it would report broken connections
		},
	}, nil
}

// URL returns the URL for clients, with the actual port.
func (l *Listener) URL() string { return "http://" + l.listener.Addr().String() + endpoint }

// Serve answers requests until ctx is done, which is not an error. It then cancels the calls in progress.
func (l *Listener) Serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- l.server.Serve(l.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", l.URL(), err)
	case <-ctx.Done():
	}
	err := l.server.Close()
	<-failed // http.ErrServerClosed
	if err != nil {
		return fmt.Errorf("ending the server of %s: %w", l.URL(), err)
	}
	return nil
}

// Close releases the address of a listener whose Serve was not called.
func (l *Listener) Close() error { return l.listener.Close() }

// A guard refuses requests that do not come from a client with the token on this machine.
type guard struct {
	next  http.Handler
	token string
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !isLocal(r.Host):
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

// isLocal reports whether a Host can only mean this machine. Anyone can make another name resolve to its address.
func isLocal(hostPort string) bool {
	host := hostPort
	if name, _, err := net.SplitHostPort(hostPort); err == nil {
		host = name
	}
	if address := net.ParseIP(strings.Trim(host, "[]")); address != nil {
		return address.IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// fromHere reports whether a request does not come from a web page, or comes from a page of this address.
func fromHere(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	return len(origins) == 0 || len(origins) == 1 && strings.EqualFold(origins[0], "http://"+r.Host)
}

func (g *guard) authorized(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(token)), []byte(g.token)) == 1
}

// checkToken returns an error for a token that is easy to guess or not valid in a header.
func checkToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token has a character that is not visible ASCII")
	}
	if len(token) < 16 {
		return fmt.Errorf("the token has %d characters, and needs at least 16", len(token))
	}
	return nil
}
