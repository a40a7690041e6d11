package turn

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/ash"
	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// The test binary runs itself as the program behind a driver. The first variable names the driver and how its turns end, the
// second is the workspace.
const (
	fakeProgram   = "OACP_TEST_FAKE"
	fakeWorkspace = "OACP_TEST_WORKSPACE"
)

// fakeDrivers maps each driver to its constructor. The fake program of each ends a turn as the prompt says.
var fakeDrivers = map[string]func(agent.Options) agent.Driver{
	"exec": agent.NewExec, "claude": agent.NewClaude, "codex": agent.NewCodex, "acp": agent.NewACP, "ash": agent.NewAsh,
}

// fakeEnds has what the programs print for each end: the lines of a turn, with ID for the id that the protocol asks for
// and TIME for the time, in seconds since 1970, at which a limit ends. Where there is no text, unable says why the driver cannot have that end.
// Behind an Ash bridge are the messages of claude.
var fakeEnds = map[End]map[string]string{
	EndAnswered: {
		"exec":   "8080",
		"claude": `{"type":"result","subtype":"success","result":"8080","user_message_uuids":["ID"]}`,
		"codex":  `{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":"8080"}}}` + "\n" + codexEnds("null"),
		"acp":    acpSays("8080") + "\n" + acpEnds("end_turn"),
	},
	EndSilent: {
		"exec":   "",
		"claude": `{"type":"result","subtype":"success","result":"","user_message_uuids":["ID"]}`,
		"codex":  codexEnds("null"),
		"acp":    acpEnds("end_turn"),
	},
	EndDeclined: {
		"claude": `{"type":"result","subtype":"success","is_error":true,"stop_reason":"refusal","result":"safeguards flagged this","user_message_uuids":["ID"]}`,
		"codex":  codexEnds(`{"message":"safeguards flagged this","codexErrorInfo":"cyberPolicy"}`),
		"acp":    acpSays("safeguards flagged this") + "\n" + acpEnds("refusal"),
	},
	EndTooLong: {
		"claude": `{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (1)"],"num_turns":1,"user_message_uuids":["ID"]}`,
		"codex":  codexEnds(`{"message":"x","codexErrorInfo":"contextWindowExceeded"}`),
		"acp":    acpEnds("max_turn_requests"),
	},
	EndLimited: {
		"claude": `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":TIME}}` + "\n" +
			`{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"You've hit your limit","user_message_uuids":["ID"]}`,
		"codex": `{"method":"account/rateLimits/updated","params":{"rateLimits":{"primary":{"usedPercent":100,"resetsAt":TIME},"secondary":null}}}` + "\n" +
			codexEnds(`{"message":"You've hit your usage limit","codexErrorInfo":"usageLimitExceeded"}`),
	},
	EndUnavailable: {
		"claude": `{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"log in","user_message_uuids":["ID"]}`,
		"codex":  codexEnds(`{"message":"log in","codexErrorInfo":"unauthorized"}`),
		"acp":    `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"log in"}}`,
	},
	EndFailed: {
		"exec":   "exit",
		"claude": `{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":1,"user_message_uuids":["ID"]}`,
		"codex":  codexEnds(`{"message":"x","codexErrorInfo":"other"}`),
		"acp":    acpEnds("who_knows"),
	},
	EndStopped: {
		"exec":   "half",
		"claude": `{"type":"assistant","message":{"role":"assistant","content":"half"}}`,
		"codex":  `{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":"half"}}}`,
		"acp":    acpSays("half"),
	},
}

// diesOnce is a program that dies in its first turn.
const diesOnce = "dies once"

// unable says why drivers cannot have an end.
var unable = map[string]map[End]string{
	"exec": {
		EndDeclined:    "an exit status names no model that refuses; a command declines with oacp reply --decline",
		EndTooLong:     "a command has no session",
		EndLimited:     "an exit status names no time",
		EndUnavailable: "a command that cannot be started is unavailable before its turn",
	},
	"acp": {EndLimited: "the protocol has no place for the end of a limit"},
}

func codexEnds(failure string) string {
	return `{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed","error":` + failure + `}}}`
}

func acpSays(text string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}}}`
}

func acpEnds(reason string) string {
	return `{"jsonrpc":"2.0","id":ID,"result":{"stopReason":"` + reason + `"}}`
}

// newFake returns a function that makes drivers whose turns end as named. For a verb, they first ask the sender back.
func newFake(t *testing.T, w *mailbox.Workspace, driver string, end End) func(schema.ConversationID, string) agent.Driver {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	options := agent.Options{Command: []string{executable}, Dir: t.TempDir(), Grace: 100 * time.Millisecond,
		Env: []string{fakeProgram + "=" + driver + " " + string(end), fakeWorkspace + "=" + w.Dir()}}
	if driver == "ash" {
		options = agent.Options{Socket: serveFake(t, w, end)}
	}
	return func(schema.ConversationID, string) agent.Driver { return fakeDrivers[driver](options) }
}

// limitEnds is when a usage limit of a fake ends.
func limitEnds() time.Time { return time.Now().Add(3 * time.Hour).Truncate(time.Minute) }

// script returns what a fake prints for a turn, after it has done what it does.
func script(dir, driver string, end End, id string) (string, error) {
	if end == EndAsked {
		end = EndAnswered // its text is no answer then
		if err := askBack(dir); err != nil {
			return "", err
		}
	}
	if end == diesOnce {
		if _, err := os.Stat(filepath.Join(dir, diesOnce)); err != nil {
			if err := os.WriteFile(filepath.Join(dir, diesOnce), nil, 0o600); err != nil {
				return "", err
			}
			os.Exit(7)
		}
	}
	if end == EndDone || end == diesOnce {
		end = EndAnswered
	}
	ends := strconv.FormatInt(limitEnds().Unix(), 10)
	return strings.NewReplacer("ID", id, "TIME", ends).Replace(fakeEnds[end][driver]), nil
}

// askBack asks the sender of the first message in the inbox of codex.
func askBack(dir string) (err error) {
	w, err := mailbox.Open(dir, &mailbox.Options{NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	pending, err := w.List(context.Background(), "codex", mailbox.Inbox)
	if err != nil || len(pending) == 0 {
		return errors.Join(err, errors.New("nothing is pending"))
	}
	c, err := client.For(w, "codex", client.Caller{PID: os.Getpid()})
	if err != nil {
		return err
	}
	r, err := c.Request(context.Background(), string(pending[0].Message.ID))
	if err != nil {
		return err
	}
	a := r.Draft()
	a.Type, a.Body = schema.Question, schema.TextValue("Which host?")
	a.Again = true // the host of Ash is no process of the turn
	_, err = r.Answer(context.Background(), a)
	return err
}

// playFake plays a program until its input ends, and returns its exit status.
func playFake(fake string) int {
	driver, end, _ := strings.Cut(fake, " ")
	dir := os.Getenv(fakeWorkspace)
	if driver == "exec" {
		text, err := script(dir, driver, End(end), "")
		fmt.Println(text)
		if err != nil || text == "exit" {
			return 7
		}
		if End(end) == EndStopped {
			time.Sleep(time.Hour)
		}
		return 0
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, err := answerFake(dir, driver, End(end), lines.Bytes()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		} else if text != "" {
			fmt.Println(text)
		}
	}
	return 0
}

// answerFake answers a line of a driver.
func answerFake(dir, driver string, end End, line []byte) (string, error) {
	var m struct {
		Type      string `json:"type"`
		UUID      string `json:"uuid"`
		RequestID string `json:"request_id"`
		ID        json.RawMessage
		Method    string
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return "", err
	}
	result := func(text string) (string, error) {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, text), nil
	}
	switch m.Type + m.Method {
	case "control_request":
		return fmt.Sprintf(`{"type":"control_response","response":{"subtype":"success","request_id":%q,"response":{}}}`, m.RequestID), nil
	case "initialize":
		return result(`{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}`)
	case "account/read":
		return result(`{"account":{}}`)
	case "thread/start", "thread/resume":
		return result(`{"thread":{"id":"t"}}`)
	case "session/new", "session/load":
		return result(`{"sessionId":"s"}`)
	case "user":
		text, err := script(dir, driver, end, m.UUID)
		return fmt.Sprintf(`{"type":"system","subtype":"init","session_id":"fake","user_message_uuids":[%q]}`, m.UUID) + "\n" + text, err
	case "turn/start":
		text, err := script(dir, driver, end, "")
		start, _ := result(`{"turn":{"id":"u","status":"inProgress"}}`)
		return start + "\n" + text, err
	case "session/prompt":
		return script(dir, driver, end, string(m.ID))
	}
	if m.ID == nil {
		return "", nil
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID), nil
}

// fakeBridge sends the messages of the fake claude.
type fakeBridge struct {
	dir string
	end End
}

func (b fakeBridge) Query(ctx context.Context, _ ash.Query, send ash.Send) error {
	text, err := script(b.dir, "claude", b.end, "x")
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(text, "\n") {
		if err := send(json.RawMessage(line)); err != nil {
			return err
		}
	}
	if b.end == EndStopped {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

func (fakeBridge) Resume(context.Context, string, ash.Send) error { return nil }

// serveFake runs an Ash bridge until the test ends, and returns its socket.
func serveFake(t *testing.T, w *mailbox.Workspace, end End) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "ash") // the paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	server, err := ash.Listen(filepath.Join(folder, "s"), fakeBridge{w.Dir(), end})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- server.Serve(context.Background()) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	return server.SocketPath()
}
