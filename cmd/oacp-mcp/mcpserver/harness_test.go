package mcpserver_test

import (
	"context"
	"encoding/json"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/cmd/oacp-contract/judge"
	"github.com/oacp-go/oacp/cmd/oacp-mcp/mcpserver"
	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == contractProgram {
		if err := judge.Serve(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(childAgent) != "" {
		os.Exit(serveAsChild())
	}
	if err := memoryfolder.Use(); err != nil {
		panic(err)
	}
	check.Overlap()
	os.Exit(m.Run())
}

// A room is a workspace and a bridge log that servers share.
type room struct {
	dir       string
	workspace *mailbox.Workspace
	bridge    bridge.Location
}

func newRoom(t testing.TB, agents ...schema.AgentName) *room {
	t.Helper()
	dir := t.TempDir()
	w := mailboxtest.NewIn(t, filepath.Join(dir, "room"), agents...)
	selector := bridge.Selector{Root: filepath.Join(dir, "runs"), Repository: filepath.Join(dir, "repository")}
	place, err := selector.Select()
	if err == nil {
		err = place.Make(time.Now())
	}
	if err == nil {
		place, err = selector.Select()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &room{dir: dir, workspace: w, bridge: place}
}

// server makes a server for an agent.
func (r *room) server(t testing.TB, agent schema.AgentName) *mcpserver.Server {
	t.Helper()
	s, err := mcpserver.New(mcpserver.Options{
		Agent: agent, Workspace: r.workspace, Bridge: &r.bridge, Version: "1.2.3",
		Warn: func(err error) { t.Logf("warning: %v", err) },
	})
	if err != nil {
		t.Fatalf("making a server for %s: %v", agent, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the server of %s: %v", agent, err)
		}
	})
	return s
}

// client serves an agent in memory and returns a client of it.
func (r *room) client(t testing.TB, agent schema.AgentName) *client {
	t.Helper()
	return inMemory(t, r.server(t, agent))
}

func inMemory(t testing.TB, s *mcpserver.Server) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(context.Background(), ours, ours) }()
	c := connect(t, &mcp.IOTransport{Reader: theirs, Writer: theirs})
	t.Cleanup(func() {
		if err := c.session.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return c
}

// A client is a session of the SDK's client.
type client struct{ session *mcp.ClientSession }

func connect(t testing.TB, transport mcp.Transport) *client {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	return &client{session}
}

type arguments map[string]any

// call calls a tool that must succeed, reads its structured content into result, and returns its
// text.
func (c *client) call(t testing.TB, tool string, args arguments, result any) string {
	t.Helper()
	text, isError, structured := c.try(t, tool, args)
	if isError {
		t.Fatalf("%s(%v) failed: %s", tool, args, text)
	}
	if result != nil {
		if err := json.Unmarshal(structured, result); err != nil {
			t.Fatalf("%s(%v): structured content %s: %v", tool, args, structured, err)
		}
	}
	return text
}

// refuse calls a tool that must fail, and returns what it says.
func (c *client) refuse(t testing.TB, tool string, args arguments) string {
	t.Helper()
	text, isError, structured := c.try(t, tool, args)
	if !isError {
		t.Fatalf("%s(%v) succeeded: %s", tool, args, text)
	}
	if len(structured) > 0 {
		t.Errorf("%s(%v) failed with structured content %s, want none: it would not fit the schema", tool, args, structured)
	}
	return text
}

func (c *client) try(t testing.TB, tool string, args arguments) (text string, isError bool, structured []byte) {
	t.Helper()
	answer, err := c.session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s(%v): error of the protocol: %v", tool, args, err)
	}
	for _, content := range answer.Content {
		text += content.(*mcp.TextContent).Text
	}
	if answer.StructuredContent != nil {
		if structured, err = json.Marshal(answer.StructuredContent); err != nil {
			t.Fatal(err)
		}
	}
	return text, answer.IsError, structured
}

func wantText(t testing.TB, what, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want it to hold %q", what, got, want)
		}
	}
}
