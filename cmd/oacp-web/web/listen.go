package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
)

// Listen says where a server listens, and who reaches it there.
type Listen struct {
	// Address is a host and a port; port 0 picks a free one.
	Address string
	// Cert and Key are the files of a TLS certificate.
	Cert, Key string
	// Proxy is the IP address of the only client that is answered, and URL is where browsers reach that proxy.
	Proxy, URL string
}

// A place is a checked Listen.
type place struct {
	certificate *tls.Certificate
	proxy       netip.Addr
	public      *url.URL
	local       bool
}

func (l Listen) check() (p place, err error) {
	address, err := net.ResolveTCPAddr("tcp", l.Address)
	if err != nil {
		return p, failure.Usagef("--listen: %w", err)
	}
	p.local = address.IP.IsLoopback()
	if (l.Cert == "") != (l.Key == "") {
		return p, failure.Usagef("--cert and --key belong together")
	}
	if (l.Proxy == "") != (l.URL == "") {
		return p, failure.Usagef("--proxy and --url belong together").WithHint("--proxy 10.0.0.2 --url https://mail.example.org")
	}
	if l.Cert != "" {
		loaded, err := tls.LoadX509KeyPair(l.Cert, l.Key)
		if err != nil {
			return p, fmt.Errorf("--cert: %w", err)
		}
		p.certificate = &loaded
	}
	if l.Proxy != "" {
		if p.proxy, err = netip.ParseAddr(l.Proxy); err != nil {
			return p, failure.Usagef("--proxy: %w", err)
		}
		p.public, err = url.Parse(l.URL)
		if err != nil || p.public.Scheme != "https" && p.public.Scheme != "http" || p.public.Host == "" || p.public.Path != "" {
			return p, failure.Usagef("--url: %q is not a scheme and a host", l.URL).WithHint("such as https://mail.example.org")
		}
	}
	if !p.local && p.certificate == nil && p.public == nil {
		return p, failure.Usagef("--listen: other machines can reach %s, and the connection is not encrypted", l.Address).
			WithHint("listen on 127.0.0.1, or give --cert and --key, or --proxy and --url")
	}
	return p, nil
}

// Listener answers browsers.
type Listener struct {
	server   *Server
	listener net.Listener
	guard    *guard
	http     *http.Server
}

// Limits of the connections.
const (
	maxHeader    = 16 << 10
	readTimeout  = 30 * time.Second
	writeTimeout = time.Minute
	idleTimeout  = 2 * time.Minute
)

// Listen listens, and answers no request before Serve. It calls invite with each new URL that lets a browser in.
func (s *Server) Listen(l Listen, invite func(url string)) (*Listener, error) {
	p, err := l.check()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", l.Address)
	if err != nil {
		return nil, failure.WithHint(fmt.Errorf("listening: %w", err), "--listen 127.0.0.1:0 picks a free port")
	}
	return s.on(listener, p, invite), nil
}

// on returns the listener that answers what comes in.
func (s *Server) on(listener net.Listener, p place, invite func(url string)) *Listener {
	g := newGuard(s, listener.Addr().(*net.TCPAddr), p, invite)
	l := &Listener{server: s, listener: listener, guard: g, http: &http.Server{
		Handler:           g,
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), // it would report broken connections
	}}
	if p.certificate != nil {
		l.listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*p.certificate}, MinVersion: tls.VersionTLS12})
	}
	return l
}

// Invite returns a URL that lets one browser in.
func (l *Listener) Invite() string { return l.guard.inviteOne() }

// Serve answers requests until ctx is done, which is not an error. Then it ends the requests in progress.
func (l *Listener) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching := make(chan struct{})
	seen := look(l.server.watched()) // before the first page is shown, so that no change after it is missed
	go func() { defer close(watching); l.server.watch(ctx, seen) }()
	failed := make(chan error, 1)
	go func() { failed <- l.http.Serve(l.listener) }()
	defer func() { cancel(); <-watching }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving %s: %w", l.guard.origin, err)
	case <-ctx.Done():
	}
	err := l.http.Close()
	<-failed // http.ErrServerClosed
	if err != nil {
		return fmt.Errorf("ending the server of %s: %w", l.guard.origin, err)
	}
	return nil
}

// names reports whether a certificate is for the host.
func names(certificate *tls.Certificate, host string) bool {
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	return err == nil && leaf.VerifyHostname(host) == nil
}
