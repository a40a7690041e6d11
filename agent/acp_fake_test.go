package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/oacp-go/oacp/internal/orphans"
)

// fakeACP plays a program that speaks the Agent Client Protocol. Its first argument selects the behavior; the
// second, if any, is a folder in which it keeps its sessions.
func fakeACP(args []string) int {
	agent := &acpAgent{kind: args[0], cancels: make(map[sdk.SessionId]context.CancelFunc)}
	if len(args) > 1 && agent.kind != "hangs again" {
		agent.folder = args[1]
	}
	switch agent.kind {
	case "garbage":
		fmt.Println("Welcome!\n{\"jsonrpc\":\"2.0\"\n[1,2]\n{\"id\":null}")
	case "dies at once":
		fmt.Fprintln(os.Stderr, "cannot find my configuration")
		return 3
	case "mute":
		hang()
	case "newer":
		fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2,"agentCapabilities":{}}}`)
		hang()
	case "needs login":
		fmt.Println(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Authentication required"}}`)
		hang()
	case "strange answer":
		fmt.Println(`{"jsonrpc":"2.0","id":1,"result":[1]}`)
		hang()
	case "hangs again":
		if !hangsAgain(args[1]) {
			return 1
		}
	case "forks":
		if leaveChild("hang", args[1]) != 0 {
			return 1
		}
		return 0
	}
	// The connection answers requests before it is complete, so it gets them afterwards.
	input, complete := io.Pipe()
	agent.conn = sdk.NewAgentSideConnection(agent, os.Stdout, input)
	go func() {
		_, err := io.Copy(complete, os.Stdin)
		complete.CloseWithError(err)
	}()
	<-agent.conn.Done()
	return 0
}

// acpAgent does what its prompts say.
type acpAgent struct {
	kind, folder string
	conn         *sdk.AgentSideConnection
	cancels      map[sdk.SessionId]context.CancelFunc
	mode         sdk.SessionModeId
	// late are updates of a loaded session that come after the answer to session/load.
	late    []string
	loaded  sdk.SessionId
	servers []sdk.McpServer
}

func (a *acpAgent) Initialize(context.Context, sdk.InitializeRequest) (sdk.InitializeResponse, error) {
	hello := sdk.InitializeResponse{ProtocolVersion: sdk.ProtocolVersionNumber, AgentCapabilities: sdk.AgentCapabilities{LoadSession: a.folder != ""}}
	if a.kind == "resumes" {
		hello.AgentCapabilities.SessionCapabilities.Resume = &sdk.SessionResumeCapabilities{}
	}
	if a.kind == "opencode" {
		hello.AgentInfo = &sdk.Implementation{Name: "OpenCode", Version: "1"}
	}
	return hello, nil
}

func (a *acpAgent) modes() *sdk.SessionModeState {
	return &sdk.SessionModeState{CurrentModeId: "auto", AvailableModes: []sdk.SessionMode{{Id: "auto", Name: "Auto"}, {Id: "default", Name: "Default"}}}
}

func (a *acpAgent) NewSession(_ context.Context, request sdk.NewSessionRequest) (sdk.NewSessionResponse, error) {
	if !filepath.IsAbs(request.Cwd) {
		return sdk.NewSessionResponse{}, sdk.NewInvalidParams("the folder is not absolute")
	}
	a.servers = request.McpServers
	return sdk.NewSessionResponse{SessionId: sdk.SessionId("session-" + newUUID()), Modes: a.modes()}, nil
}

// file is where the prompts of a session are kept.
func (a *acpAgent) file(session sdk.SessionId) string {
	return filepath.Join(a.folder, string(session))
}

func (a *acpAgent) LoadSession(ctx context.Context, request sdk.LoadSessionRequest) (sdk.LoadSessionResponse, error) {
	past, err := os.ReadFile(a.file(request.SessionId))
	if err != nil {
		return sdk.LoadSessionResponse{}, &sdk.RequestError{Code: -32002, Message: "Resource not found"}
	}
	err = a.say(ctx, request.SessionId, "you said earlier: "+string(past))
	if a.kind == "loads late" {
		a.loaded, a.late = request.SessionId, []string{"and this", "and that"}
	}
	return sdk.LoadSessionResponse{Modes: a.modes()}, err
}

// HandleExtensionMethod knows no method. As all requests, it is answered between two updates of the past.
func (a *acpAgent) HandleExtensionMethod(ctx context.Context, method string, _ json.RawMessage) (any, error) {
	if len(a.late) > 0 {
		if err := a.say(ctx, a.loaded, a.late[0]); err != nil {
			return nil, err
		}
		a.late = a.late[1:]
	}
	return nil, sdk.NewMethodNotFound(method)
}

func (a *acpAgent) ResumeSession(_ context.Context, request sdk.ResumeSessionRequest) (sdk.ResumeSessionResponse, error) {
	if _, err := os.Stat(a.file(request.SessionId)); err != nil {
		return sdk.ResumeSessionResponse{}, sdk.NewInvalidParams("no such session")
	}
	return sdk.ResumeSessionResponse{}, nil
}

func (a *acpAgent) SetSessionMode(_ context.Context, request sdk.SetSessionModeRequest) (sdk.SetSessionModeResponse, error) {
	a.mode = request.ModeId
	return sdk.SetSessionModeResponse{}, nil
}

func (a *acpAgent) Cancel(_ context.Context, request sdk.CancelNotification) error {
	if cancel := a.cancels[request.SessionId]; cancel != nil {
		cancel()
	}
	return nil
}

func (a *acpAgent) update(ctx context.Context, session sdk.SessionId, update sdk.SessionUpdate) error {
	return a.conn.SessionUpdate(ctx, sdk.SessionNotification{SessionId: session, Update: update})
}

func (a *acpAgent) say(ctx context.Context, session sdk.SessionId, text string) error {
	return a.update(ctx, session, sdk.UpdateAgentMessageText(text))
}

// Prompt does what the prompt says. Its first word selects the deed.
func (a *acpAgent) Prompt(ctx context.Context, request sdk.PromptRequest) (sdk.PromptResponse, error) {
	session, prompt := request.SessionId, request.Prompt[0].Text.Text
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.cancels[session] = cancel
	if a.folder != "" {
		file, err := os.OpenFile(a.file(session), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(file, prompt)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			return sdk.PromptResponse{}, err
		}
	}
	for _, past := range a.late {
		if err := a.say(ctx, session, past); err != nil {
			return sdk.PromptResponse{}, err
		}
	}
	answer, reason, err := a.deed(ctx, session, prompt)
	if err != nil {
		return sdk.PromptResponse{}, err
	}
	if err := a.say(ctx, session, answer); err != nil && ctx.Err() == nil {
		return sdk.PromptResponse{}, err
	}
	usage := &sdk.SessionUsageUpdate{Used: 107, Size: 1000, Cost: &sdk.Cost{Amount: 0.25, Currency: "USD"}}
	err = a.update(context.Background(), session, sdk.SessionUpdate{UsageUpdate: usage})
	return sdk.PromptResponse{StopReason: cmp.Or(reason, sdk.StopReasonEndTurn), Usage: &sdk.Usage{InputTokens: 80, CachedReadTokens: sdk.Ptr(20), OutputTokens: 7, TotalTokens: 107}}, err
}

func (a *acpAgent) deed(ctx context.Context, session sdk.SessionId, prompt string) (answer string, reason sdk.StopReason, err error) {
	deed, object, _ := strings.Cut(prompt, " ")
	if a.kind == "hangs again" {
		deed = "die"
	}
	switch deed {
	case "run", "edit":
		answer, err = a.use(ctx, session, deed, object)
	case "hold":
		if err = a.say(ctx, session, "half an answer"); err == nil {
			<-ctx.Done()
			reason = sdk.StopReasonCancelled
		}
	case "ignore":
		err = a.say(ctx, session, "half an answer")
		time.Sleep(time.Hour)
	case "read":
		_, err = a.conn.ReadTextFile(ctx, sdk.ReadTextFileRequest{SessionId: session, Path: object})
		answer, err = fmt.Sprint("reading: ", err), nil
	case "call":
		_, err = a.conn.CallExtension(ctx, "_"+object, nil)
		answer, err = fmt.Sprint("calling: ", err), nil
	case "fail":
		err = sdk.NewInternalError(map[string]any{"details": object})
	case "stop":
		reason = sdk.StopReason(object)
	case "die":
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(7)
	case "flood":
		answer = strings.Repeat("0123456789", 1<<20)
	case "mode":
		answer = string(a.mode)
	case "mark":
		answer = os.Getenv(orphans.Variable)
	case "servers":
		for _, server := range a.servers {
			answer += fmt.Sprint(server.Stdio.Name, server.Stdio.Command, server.Stdio.Args)
		}
	default:
		answer = "you said: " + prompt
	}
	return answer, reason, err
}

// use uses a tool: it runs a command, or writes the files.
func (a *acpAgent) use(ctx context.Context, session sdk.SessionId, deed, object string) (string, error) {
	id, kind, input := sdk.ToolCallId("call-"+newUUID()), sdk.ToolKindExecute, map[string]any{"command": object}
	var locations []sdk.ToolCallLocation
	if deed == "edit" {
		kind, input = sdk.ToolKindEdit, map[string]any{}
		for path := range strings.SplitSeq(object, ",") {
			locations = append(locations, sdk.ToolCallLocation{Path: path})
		}
	}
	start := sdk.StartToolCall(id, deed+" "+object, sdk.WithStartKind(kind), sdk.WithStartRawInput(input), sdk.WithStartLocations(locations), sdk.WithStartStatus(sdk.ToolCallStatusPending))
	err := errors.Join(a.say(ctx, session, "I will "+deed), a.update(ctx, session, start))
	if err != nil || a.kind != "silent" {
		answer, askErr := a.conn.RequestPermission(ctx, sdk.RequestPermissionRequest{
			SessionId: session, ToolCall: sdk.ToolCallUpdate{ToolCallId: id, Locations: locations},
			Options: []sdk.PermissionOption{
				{OptionId: "always", Name: "Always", Kind: sdk.PermissionOptionKindAllowAlways},
				{OptionId: "yes", Name: "Yes", Kind: sdk.PermissionOptionKindAllowOnce},
				{OptionId: "no", Name: "No", Kind: sdk.PermissionOptionKindRejectOnce},
			},
		})
		if err = errors.Join(err, askErr); err != nil {
			return "", err
		}
		if chosen := answer.Outcome.Selected; chosen == nil || chosen.OptionId != "yes" {
			return "not permitted", a.update(ctx, session, sdk.UpdateToolCall(id, sdk.WithUpdateStatus(sdk.ToolCallStatusFailed)))
		}
	}
	return "did it", a.update(ctx, session, sdk.UpdateToolCall(id, sdk.WithUpdateStatus(sdk.ToolCallStatusCompleted)))
}

func (a *acpAgent) Authenticate(context.Context, sdk.AuthenticateRequest) (sdk.AuthenticateResponse, error) {
	return sdk.AuthenticateResponse{}, sdk.NewMethodNotFound(sdk.AgentMethodAuthenticate)
}

func (a *acpAgent) Logout(context.Context, sdk.LogoutRequest) (sdk.LogoutResponse, error) {
	return sdk.LogoutResponse{}, sdk.NewMethodNotFound(sdk.AgentMethodLogout)
}

func (a *acpAgent) CloseSession(context.Context, sdk.CloseSessionRequest) (sdk.CloseSessionResponse, error) {
	return sdk.CloseSessionResponse{}, sdk.NewMethodNotFound(sdk.AgentMethodSessionClose)
}

func (a *acpAgent) ListSessions(context.Context, sdk.ListSessionsRequest) (sdk.ListSessionsResponse, error) {
	return sdk.ListSessionsResponse{}, sdk.NewMethodNotFound(sdk.AgentMethodSessionList)
}

func (a *acpAgent) SetSessionConfigOption(context.Context, sdk.SetSessionConfigOptionRequest) (sdk.SetSessionConfigOptionResponse, error) {
	return sdk.SetSessionConfigOptionResponse{}, sdk.NewMethodNotFound(sdk.AgentMethodSessionSetConfigOption)
}
