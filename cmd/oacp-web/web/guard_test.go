package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
)

func TestLogin(t *testing.T) {
	b := newBrowser(t, newWorkspace(t), "anna")
	for _, path := range []string{"/", "/events", "/a/anna/inbox", "/search?q=x", "/nothing", "/login", "/login?token=", "/login?token=wrong"} {
		if got := b.get(path); got.Code != http.StatusUnauthorized || strings.Contains(got.Body.String(), "anna") {
			t.Errorf("%s without a cookie answers %d:\n%s", path, got.Code, got.Body)
		}
	}
	b.login()
	cookie := b.cookies[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Domain != "" || cookie.Path != "/" {
		t.Errorf("the cookie is %v", cookie)
	}
	b.page("/")
	if len(b.invited) != 2 || b.invited[0] == b.invited[1] {
		t.Fatalf("the URLs are %q, want another one after the first login", b.invited)
	}
	other := &browser{t: t, handler: b.handler, guard: b.guard, server: b.server}
	used, _ := url.Parse(b.invited[0])
	if got := other.get(used.RequestURI()); got.Code != http.StatusUnauthorized || len(other.cookies) > 0 {
		t.Errorf("a token that was used answers %d with %v", got.Code, other.cookies)
	}
	other.cookies = []*http.Cookie{{Name: cookie.Name, Value: "A" + cookie.Value}}
	if got := other.get("/"); got.Code != http.StatusUnauthorized {
		t.Errorf("a wrong cookie answers %d", got.Code)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	b := newBrowser(t, newWorkspace(t), "anna").unlimited()
	b.guard.logins.SetLimit(1e9)
	b.login()
	for range maxSessions {
		other := &browser{t: t, handler: b.handler, guard: b.guard, server: b.server}
		other.login()
	}
	if got := b.get("/"); got.Code != http.StatusUnauthorized || len(b.guard.sessions) != maxSessions {
		t.Errorf("the oldest of %d sessions answers %d", len(b.guard.sessions), got.Code)
	}
}

func TestHostAndOrigin(t *testing.T) {
	w := newWorkspace(t)
	asked := ask(t, w, "Deploy?", "It is green.")
	b := newBrowser(t, w, "anna").unlimited().login()
	tests := []struct {
		name, value string
		get, post   int
	}{
		{"Host", "evil.example", 403, 403},
		{"Host", "127.0.0.1:7071", 403, 403},
		{"Host", "127.0.0.1.evil.example:7070", 403, 403},
		{"Host", "localhost:7070", 200, 403},
		{"Host", "[::1]:7070", 200, 403},
		{"Origin", "http://127.0.0.1:7070", 200, 403}, // without a CSRF token
		{"Origin", "http://127.0.0.1:7071", 403, 403},
		{"Origin", "https://127.0.0.1:7070", 403, 403},
		{"Origin", "null", 403, 403},
		{"Sec-Fetch-Site", "same-origin", 200, 403},
		{"Sec-Fetch-Site", "same-site", 403, 403},
		{"Sec-Fetch-Site", "cross-site", 403, 403},
	}
	for _, test := range tests {
		b.header = http.Header{test.name: {test.value}}
		if got := b.get("/"); got.Code != test.get {
			t.Errorf("GET with %s %s answers %d, want %d", test.name, test.value, got.Code, test.get)
		}
		if got := b.postBody("/m/"+string(asked.ID)+"/reply", "choose=yes"); got.Code != test.post {
			t.Errorf("POST with %s %s answers %d, want %d", test.name, test.value, got.Code, test.post)
		}
	}
	b.header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}
	if got := b.get("/"); got.Code != http.StatusOK {
		t.Errorf("a link of another site answers %d", got.Code)
	}
	b.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
	if got := b.post("/m/"+string(asked.ID)+"/reply", url.Values{"choose": {"yes"}}); got.Code != http.StatusForbidden {
		t.Errorf("a form of another site with the token answers %d", got.Code)
	}
	if sent := sentBy(t, w, "anna"); len(sent) != 0 {
		t.Errorf("%d messages were sent", len(sent))
	}
}

func TestCSRF(t *testing.T) {
	w := newWorkspace(t)
	asked := ask(t, w, "Deploy?", "It is green.")
	b := newBrowser(t, w, "anna").unlimited().login()
	for _, path := range []string{"/m/" + string(asked.ID) + "/reply", "/m/" + string(asked.ID) + "/done", "/a/anna/archive/restore"} {
		for _, token := range []string{"", "csrf=&", "csrf=wrong&"} {
			got := b.postBody(path, token+"choose=yes&text=precious&id="+string(asked.ID))
			if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "precious") {
				t.Errorf("%s with %q answers %d:\n%s", path, token, got.Code, textOf(got.Body.String()))
			}
		}
	}
	if sent := sentBy(t, w, "anna"); len(sent) != 0 {
		t.Errorf("%d messages were sent", len(sent))
	}
	for _, path := range []string{"/", "/c/" + string(asked.ID), "/m/" + string(asked.ID)} {
		page := b.page(path)
		if forms, tokens := strings.Count(page, `method="post"`), strings.Count(page, `name="csrf" value="`+b.csrf()+`"`); forms == 0 || forms != tokens {
			t.Errorf("%s has %d forms and %d tokens", path, forms, tokens)
		}
	}
}

func TestHeaders(t *testing.T) {
	b := newBrowser(t, newWorkspace(t), "anna")
	check := func(path string) {
		t.Helper()
		header := b.get(path).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		policy := header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "require-trusted-types-for 'script'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
	}
	check("/")
	b.login()
	for _, path := range []string{"/", "/static/app.js", "/nothing", "/a/anna/inbox"} {
		check(path)
	}
}

func TestMethods(t *testing.T) {
	b := newBrowser(t, newWorkspace(t), "anna").unlimited().login()
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "PUT": 405, "DELETE": 405, "OPTIONS": 405, "TRACE": 405, "PATCH": 405} {
		if got := b.send(httptest.NewRequestWithContext(t.Context(), method, "http://"+address+"/", nil)); got.Code != want {
			t.Errorf("%s answers %d, want %d", method, got.Code, want)
		}
	}
}

func TestSizesAndRates(t *testing.T) {
	w := newWorkspace(t)
	asked := ask(t, w, "Deploy?", "It is green.")
	b := newBrowser(t, w, "anna").login()
	if got := b.postBody("/m/"+string(asked.ID)+"/reply", "csrf="+b.csrf()+"&text="+strings.Repeat("x", maxForm)); got.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a form of more than %d bytes answers %d", maxForm, got.Code)
	}
	count := func(ask func() *httptest.ResponseRecorder) int {
		for i := range 1000 {
			if ask().Code == http.StatusTooManyRequests {
				return i
			}
		}
		return -1
	}
	if got := count(func() *httptest.ResponseRecorder { return b.post("/nothing", url.Values{}) }); got < 10 || got > 100 {
		t.Errorf("the limit comes after %d forms", got)
	}
	if got := count(func() *httptest.ResponseRecorder { return b.get("/login?token=x") }); got < 5 || got > 50 {
		t.Errorf("the limit comes after %d attempts to log in", got)
	}
	if got := count(func() *httptest.ResponseRecorder { return b.get("/static/icon.svg") }); got < 100 || got > 600 {
		t.Errorf("the limit comes after %d requests", got)
	}
}

// certificate writes a certificate for a name, and returns its files.
func certificate(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	data, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: data}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestListen(t *testing.T) {
	cert, key := certificate(t, "mail.example.org")
	tests := []struct {
		listen Listen
		want   string // a part of the error; empty for none
	}{
		{Listen{Address: "127.0.0.1:0"}, ""},
		{Listen{Address: "localhost:0"}, ""},
		{Listen{Address: "0.0.0.0:0"}, "other machines can reach"},
		{Listen{Address: ":0"}, "other machines can reach"},
		{Listen{Address: "0.0.0.0:0", Cert: cert, Key: key}, ""},
		{Listen{Address: "0.0.0.0:0", Cert: cert}, "belong together"},
		{Listen{Address: "0.0.0.0:0", Cert: key, Key: cert}, "--cert"},
		{Listen{Address: "0.0.0.0:0", Proxy: "10.0.0.2", URL: "https://mail.example.org"}, ""},
		{Listen{Address: "0.0.0.0:0", Proxy: "10.0.0.2"}, "belong together"},
		{Listen{Address: "0.0.0.0:0", URL: "https://mail.example.org"}, "belong together"},
		{Listen{Address: "0.0.0.0:0", Proxy: "proxy", URL: "https://mail.example.org"}, "--proxy"},
		{Listen{Address: "0.0.0.0:0", Proxy: "10.0.0.2", URL: "https://mail.example.org/x"}, "--url"},
		{Listen{Address: "nowhere"}, "--listen"},
	}
	for _, test := range tests {
		_, err := test.listen.check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: the error is %v, want %q", test.listen, err, test.want)
		}
	}
}

func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	server, err := New(newWorkspace(t), Options{Warn: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.Listen(Listen{Address: taken.Addr().String()}, func(string) {})
	if err == nil || !strings.Contains(failure.Of(err).Hint, "free port") {
		t.Errorf("the error is %v", err)
	}
}

func TestProxyAndTLS(t *testing.T) {
	server, err := New(newWorkspace(t), Options{Person: "anna", Warn: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	b := browserOf(t, server, place{proxy: netip.MustParseAddr("192.0.2.1"), public: &url.URL{Scheme: "https", Host: "mail.example.org"}})
	b.header.Set("Host", "mail.example.org")
	b.login() // the requests of httptest come from 192.0.2.1
	if cookie := b.cookies[0]; !cookie.Secure || !strings.HasPrefix(cookie.Name, "__Host-") {
		t.Errorf("the cookie is %v", cookie)
	}
	if !strings.HasPrefix(b.invited[0], "https://mail.example.org/login?token=") {
		t.Errorf("the URL is %s", b.invited[0])
	}
	b.header.Set("Host", address)
	if got := b.get("/"); got.Code != http.StatusForbidden {
		t.Errorf("another host answers %d", got.Code)
	}
	b.header.Set("Host", "mail.example.org")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://mail.example.org/", nil)
	r.RemoteAddr = "192.0.2.7:1234"
	if got := b.send(r); got.Code != http.StatusForbidden {
		t.Errorf("a client that is not the proxy gets %d", got.Code)
	}

	cert, key := certificate(t, "mail.example.org")
	loaded, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	secure := browserOf(t, server, place{certificate: &loaded})
	for host, want := range map[string]bool{"mail.example.org:7070": true, "mail.example.org": false, "other.example.org:7070": false, "127.0.0.1:7070": true} {
		if got := secure.guard.isOwnHost(host); got != want {
			t.Errorf("%s is its own host: %v, want %v", host, got, want)
		}
	}
}

// TestServe checks that a server over a real connection ends with its context.
func TestServe(t *testing.T) {
	w := newWorkspace(t)
	server, err := New(w, Options{Person: "anna", Warn: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := server.Listen(Listen{Address: "127.0.0.1:0"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	served, stop := startServing(t, l)
	answer, err := http.Get(l.Invite())
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Errorf("the login answers %d", answer.StatusCode)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + l.listener.Addr().String()); err == nil {
		t.Error("the server still answers")
	}
	if err := errors.Join(server.Close()); err != nil {
		t.Error(err)
	}
}
