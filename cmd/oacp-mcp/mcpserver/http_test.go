package mcpserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/cmd/oacp-mcp/mcpserver"
	"github.com/oacp-go/oacp/schema"
)

const testToken = "correct-horse-battery"

// listen serves an agent over HTTP on a free port of this machine and returns the address.
func (r *room) listen(t testing.TB, agent schema.AgentName) string {
	t.Helper()
	l, err := r.server(t, agent).Listen("127.0.0.1:0", testToken)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	return l.URL()
}

// withToken adds a bearer token to every request.
type withToken string

func (token withToken) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(request)
}

func overHTTP(t testing.TB, url string) *client {
	t.Helper()
	c := connect(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: withToken(testToken)}})
	t.Cleanup(func() {
		if err := c.session.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
	})
	return c
}

// TestHTTP lets two agents talk through two HTTP servers.
func TestHTTP(t *testing.T) {
	r := newRoom(t, "claude", "codex")
	claude, codex := overHTTP(t, r.listen(t, "claude")), overHTTP(t, r.listen(t, "codex"))
	claude.call(t, "send_to_agent", arguments{"to": "codex", "message_type": "task", "content": "one"}, nil)
	claude.call(t, "send_message", arguments{"to": "codex", "type": "question", "subject": "S", "body": "B"}, nil)
	var got received
	var waiting inbox
	codex.call(t, "receive_messages", nil, &got)
	codex.call(t, "list_inbox", nil, &waiting)
	if len(got.Messages) != 1 || got.Messages[0].From != "claude" || waiting.Total != 1 {
		t.Errorf("codex received %+v and %+v, want one of each", got, waiting)
	}
	wantText(t, "an error", codex.refuse(t, "read_message", arguments{"message_id": "zzzz"}), "not_found: ")
}

// post sends one JSON-RPC request and returns status and text of the answer.
func post(t testing.TB, url string, body io.Reader, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Authorization", "Bearer "+testToken)
	if change != nil {
		change(request)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// TestGuard lists requests that must not reach the tools, and requests that must.
func TestGuard(t *testing.T) {
	url := newRoom(t, "claude", "codex").listen(t, "codex")
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"good", nil, http.StatusOK},
		{"no token", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		{"empty token", header("Authorization", "Bearer "), http.StatusUnauthorized},
		{"wrong token", header("Authorization", "Bearer "+testToken+"x"), http.StatusUnauthorized},
		{"beginning of the token", header("Authorization", "Bearer "+testToken[:10]), http.StatusUnauthorized},
		{"other scheme", header("Authorization", "Basic "+testToken), http.StatusUnauthorized},
		{"token in the address", func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "token=" + testToken }, http.StatusUnauthorized},
		{"scheme in lower case", header("Authorization", "bearer "+testToken), http.StatusOK},
		{"rebound name", host("evil.example:" + port), http.StatusForbidden},
		{"name that looks like us", host("127.0.0.1.evil.example:" + port), http.StatusForbidden},
		{"address of another machine", host("192.0.2.1:" + port), http.StatusForbidden},
		{"no host", host(":" + port), http.StatusForbidden},
		{"localhost", host("localhost:" + port), http.StatusOK},
		{"IPv6 loopback", host("[::1]:" + port), http.StatusOK},
		{"page of another site", header("Origin", "https://evil.example"), http.StatusForbidden},
		{"page of another local server", header("Origin", "http://127.0.0.1:1"), http.StatusForbidden},
		{"page without an origin", header("Origin", "null"), http.StatusForbidden},
		{"rebound page", func(r *http.Request) {
			r.Host = "evil.example:" + port
			r.Header.Set("Origin", "http://evil.example:"+port)
		}, http.StatusForbidden},
		{"own origin", header("Origin", "http://"+address), http.StatusOK},
		{"text", header("Content-Type", "text/plain"), http.StatusUnsupportedMediaType},
		{"reading", func(r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed},
		{"other path", func(r *http.Request) { r.URL.Path = "/" }, http.StatusNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, text := post(t, url, strings.NewReader(strings.TrimSpace(initialize)), test.change)
			if response.StatusCode != test.want {
				t.Fatalf("the answer is %s: %s; want status %d", response.Status, text, test.want)
			}
			if strings.Contains(text, testToken) {
				t.Errorf("the answer shows the token: %s", text)
			}
			if challenge := response.Header.Get("WWW-Authenticate"); (test.want == http.StatusUnauthorized) != (challenge != "") {
				t.Errorf("WWW-Authenticate is %q with status %d", challenge, test.want)
			}
		})
	}
}

// TestHTTPBounds checks that a client cannot make the server hold any amount of text.
func TestHTTPBounds(t *testing.T) {
	url := newRoom(t, "claude", "codex").listen(t, "codex")
	response, text := post(t, url, strings.NewReader(`{"a":"`+strings.Repeat("x", 9<<20)+`"}`), nil)
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("9 MiB were answered with %s: %s; want status %d", response.Status, text, http.StatusRequestEntityTooLarge)
	}
	response, _ = post(t, url, strings.NewReader("{}"), func(r *http.Request) { r.Header.Set("X-Large", strings.Repeat("x", 64<<10)) })
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 64 KiB was answered with %s, want status %d", response.Status, http.StatusRequestHeaderFieldsTooLarge)
	}
}

// TestListenRefuses lists addresses and tokens that are not served.
func TestListenRefuses(t *testing.T) {
	s := newRoom(t, "claude", "codex").server(t, "codex")
	for _, test := range []struct {
		address, token, want string
	}{
		{"0.0.0.0:0", testToken, mcpserver.ErrRemoteAddress.Error()},
		{":0", testToken, mcpserver.ErrRemoteAddress.Error()},
		{"[::]:0", testToken, mcpserver.ErrRemoteAddress.Error()},
		{"192.0.2.1:0", testToken, mcpserver.ErrRemoteAddress.Error()},
		{"127.0.0.1", testToken, "missing port"},
		{"127.0.0.1:99999", testToken, "invalid port"},
		{"127.0.0.1:0", "", "needs at least 16"},
		{"127.0.0.1:0", "fifteen-letters", "needs at least 16"},
		{"127.0.0.1:0", "with space in the middle", "visible ASCII"},
	} {
		l, err := s.Listen(test.address, test.token)
		if err == nil {
			t.Errorf("%+v is served", test)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v gave %v, want an error that holds %q", test, err, test.want)
		}
	}
}

// TestShutdown checks that the address is free again after the context ends, even if a client keeps
// its connection.
func TestShutdown(t *testing.T) {
	s := newRoom(t, "claude", "codex").server(t, "codex")
	l, err := s.Listen("127.0.0.1:0", testToken)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx) }()
	if response, text := post(t, l.URL(), strings.NewReader(initialize), nil); response.StatusCode != http.StatusOK {
		t.Fatalf("the server answers %s: %s", response.Status, text)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("serving ended with %v, want nothing", err)
	}
	again, err := net.Listen("tcp", strings.TrimSuffix(strings.TrimPrefix(l.URL(), "http://"), "/mcp"))
	if err != nil {
		t.Fatalf("the address is still taken: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestServeFails checks that serving a closed listener fails.
func TestServeFails(t *testing.T) {
	l, err := newRoom(t, "claude", "codex").server(t, "codex").Listen("127.0.0.1:0", testToken)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Serve(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("serving a closed listener gave %v, want %v", err, net.ErrClosed)
	}
}
