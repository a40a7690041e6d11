package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// A noted is a driver that answers with its model, its session and what it gets.
type noted struct {
	model, session string
	stopped        *int
}

func (n *noted) Start(context.Context) error { return nil }
func (n *noted) Turn(_ context.Context, r Request, _ func(Event)) (Result, error) {
	n.session = "s"
	return Result{Text: fmt.Sprintf("%s/%s/%s", n.model, r.Images, r.Prompt)}, nil
}
func (n *noted) SessionID() string          { return n.session }
func (n *noted) Stop(context.Context) error { *n.stopped++; return nil }

// TestAshOptions checks that what a query asks of the agent is honored or refused.
func TestAshOptions(t *testing.T) {
	stopped, continued := 0, ""
	makeNoted := func(o Options) Driver {
		continued = o.Session
		return &noted{model: o.Model, session: o.Session, stopped: &stopped}
	}
	plain := NewAshHandler(Kind{New: makeNoted}, Options{})
	able := NewAshHandler(Kind{New: makeNoted, Model: true, Images: true}, Options{Allow: PermitAll, Dir: t.TempDir(), Inherit: Inherit{Clean: true}})
	t.Setenv("BRIDGE_SECRET", "x")
	const image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"eA=="}}`
	for _, test := range []struct {
		bridge        *AshHandler
		command, want string
	}{
		{plain, `{"cmd":"query","prompt":"p","sessionId":"s","model":"large"}`, `"ev":"error","error":"this bridge does not honor model: `},
		{plain, `{"cmd":"query","prompt":[` + image + `],"sessionId":"s"}`, `"ev":"error","error":"content block 1 is of type \"image\", which this agent does not accept`},
		{plain, `{"cmd":"exec","command":"echo x"}`, `"ev":"error","error":"this bridge runs no commands for hosts: `},
		{able, `{"cmd":"query","prompt":"p","sessionId":"s","maxTurns":3,"effort":"high"}`, `"ev":"error","error":"this bridge does not honor effort, maxTurns: `},
		{able, `{"cmd":"query","prompt":"p","sessionId":"s","outputFormat":{"type":"json_schema","schema":{}}}`, `"ev":"error","error":"this bridge does not honor outputFormat: `},
		{able, `{"cmd":"query","prompt":"p","sessionId":"s","thinking":null,"model":null,"traceContext":"00-1"}`, `"result":"/[]/p"`},
		{able, `{"cmd":"query","prompt":"p","sessionId":"s","model":"large"}`, `"result":"large/[]/p"`},
		{able, `{"cmd":"query","prompt":"p","sessionId":"s","model":"large"}`, `"result":"large/[]/p"`},
		{able, `{"cmd":"query","prompt":[{"type":"text","text":"a"},` + image + `,{"type":"text","text":"b"}],"sessionId":"s"}`, `"result":"/[{\"type\":\"image\"`},
		{able, `{"cmd":"query","prompt":[{"type":"sound"}],"sessionId":"s"}`, `"ev":"error","error":"content block 1 is of type \"sound\"`},
		{able, `{"cmd":"exec","command":"echo out; echo err >&2; exit 3"}`, `{"ev":"exec_result","exitCode":3,"stdout":"out\n","stderr":"err\n"}`},
		{able, `{"cmd":"exec","command":"echo out; sleep 1000","timeout":50}`, `{"ev":"exec_result","exitCode":1,"stdout":"out\n","stderr":""}`},
		{able, `{"cmd":"exec","command":"echo [$BRIDGE_SECRET]"}`, `,"stdout":"[]\n"`},
		{able, `{"cmd":"exec","command":"yes"}`, `,"stdout":"y\ny\n`},
	} {
		conn, err := net.Dial("unix", serve(t, test.bridge))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(conn, test.command); err != nil {
			t.Fatal(err)
		}
		lines, got := bufio.NewReaderSize(conn, 1<<20), ""
		for !strings.HasPrefix(got, `{"ev":"done"`) {
			if strings.Contains(got, test.want) {
				test.want = ""
			}
			if got, err = lines.ReadString('\n'); err != nil {
				t.Fatalf("%s: %v", test.command, err)
			}
		}
		if test.want != "" {
			t.Errorf("%s: no line has %s", test.command, test.want)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if stopped != 2 || continued != "s" {
		t.Errorf("%d drivers were stopped, and the last continued %q; want 2 for the changes of the model, and s", stopped, continued)
	}
}

// TestClaudeImages checks that claude shows the model the pictures of a request, and the text after them.
func TestClaudeImages(t *testing.T) {
	t.Parallel()
	withPrograms(t, func(t *testing.T, p realProgram) {
		if p.name != "claude" {
			t.Skip("only claude takes pictures")
		}
		driver, server := p.create(t, func(context.Context, modelstub.Request) modelstub.Reply { return modelstub.Reply{Text: "a dot"} }, func(*Options) {})
		started(t, driver)
		const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
		picture := json.RawMessage(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + dot + `"}}`)
		result, err := driver.Turn(t.Context(), Request{Prompt: "what is this?", Images: []json.RawMessage{picture}}, nil)
		if err != nil || result.Text != "a dot" {
			t.Fatalf("%+v, %v", result, err)
		}
		requests := server.Requests()
		body := string(requests[len(requests)-1].Body)
		if at := strings.Index(body, `"media_type":"image/png"`); at < 0 || strings.LastIndex(body, "what is this?") < at {
			t.Errorf("the model got %s", body)
		}
	})
}
