package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/oacp-go/oacp/internal/visible"
)

// acpHello is the answer to the initialize request.
type acpHello struct {
	Version int `json:"protocolVersion"`
	Info    struct {
		Name string `json:"name"`
	} `json:"agentInfo"`
	Can struct {
		Load    bool `json:"loadSession"`
		Session struct {
			Resume json.RawMessage `json:"resume"`
		} `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
}

// acpSession is the answer to a request that opens a session.
type acpSession struct {
	ID    string `json:"sessionId"`
	Modes struct {
		Current   string    `json:"currentModeId"`
		Available []acpMode `json:"availableModes"`
	} `json:"modes"`
}

type acpMode struct {
	ID string `json:"id"`
}

// offers reports whether the session has a mode.
func (s *acpSession) offers(mode string) bool {
	return slices.ContainsFunc(s.Modes.Available, func(m acpMode) bool { return m.ID == mode })
}

// acpServer is an MCP server that a program starts.
type acpServer struct {
	Name    string     `json:"name"`
	Command string     `json:"command"`
	Args    []string   `json:"args"`
	Env     []struct{} `json:"env"`
}

func acpServers(servers map[string]MCPServer) []acpServer {
	list := []acpServer{}
	for name, server := range servers {
		list = append(list, acpServer{name, server.Command[0], append([]string{}, server.Command[1:]...), []struct{}{}})
	}
	return list
}

// acpNotice holds the parameters of an update of a session.
type acpNotice struct {
	SessionID string    `json:"sessionId"`
	Update    acpUpdate `json:"update"`
}

type acpUpdate struct {
	Kind      string `json:"sessionUpdate"`
	MessageID string `json:"messageId"`
	Cost      *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
	acpCall
}

// text returns the text of a piece of a message.
func (u *acpUpdate) text() string {
	var content struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(u.Content, &content) // other content has no text
	return content.Text
}

// acpDone is the answer to a prompt.
type acpDone struct {
	StopReason string    `json:"stopReason"`
	Usage      acpTokens `json:"usage"`
	Meta       struct {
		Quota struct {
			// Tokens is what gemini reports.
			Tokens acpTokens `json:"token_count"`
		} `json:"quota"`
	} `json:"_meta"`
}

// acpTokens are the tokens of a turn, or of an answer of the model. Only some programs count cached input as
// input, but all count it in the total.
type acpTokens struct {
	Input       int64 `json:"inputTokens"`
	Output      int64 `json:"outputTokens"`
	Total       int64 `json:"totalTokens"`
	GeminiInput int64 `json:"input_tokens"`
	GeminiOuput int64 `json:"output_tokens"`
}

func (t *acpTokens) usage() Usage {
	u := Usage{InputTokens: cmp.Or(t.Input, t.GeminiInput), OutputTokens: cmp.Or(t.Output, t.GeminiOuput)}
	if t.Total > t.Output {
		u.InputTokens = t.Total - t.Output
	}
	return u
}

// acpCall is the use of a tool as far as the program has described it.
type acpCall struct {
	ID        string          `json:"toolCallId"`
	Name      string          `json:"name"`
	Title     string          `json:"title"`
	Category  string          `json:"kind"`
	Status    string          `json:"status"`
	Content   json.RawMessage `json:"content"`
	Locations []acpPath       `json:"locations"`
	Input     json.RawMessage `json:"rawInput"`
	Meta      acpMeta         `json:"_meta"`

	// asked reports that the program has asked for permission.
	asked bool
}

type acpPath struct {
	Path string `json:"path"`
}

// acpMeta has what programs add to the protocol.
type acpMeta struct {
	// Usage is what qwen reports with a message, and ToolName how it names a tool.
	Usage    acpTokens `json:"usage"`
	ToolName string    `json:"toolName"`
	// OfMCP is set by codex-acp for a tool of an MCP server.
	OfMCP bool `json:"is_mcp_tool_call"`
}

// merge adds an update, which omits what has not changed.
func (c *acpCall) merge(update *acpCall) {
	c.ID = update.ID
	c.Name, c.Title = cmp.Or(update.Name, c.Name), cmp.Or(update.Title, c.Title)
	c.Category, c.Status = cmp.Or(update.Category, c.Category), cmp.Or(update.Status, c.Status)
	c.Meta.ToolName, c.Meta.OfMCP = cmp.Or(update.Meta.ToolName, c.Meta.ToolName), c.Meta.OfMCP || update.Meta.OfMCP
	if len(update.Locations) > 0 {
		c.Locations = update.Locations
	}
	if len(update.Content) > 0 {
		c.Content = update.Content
	}
	if len(update.Input) > len("{}") {
		c.Input = update.Input
	}
}

// tool returns the name of the tool, or what kind of tool it is.
func (c *acpCall) tool() string { return cmp.Or(c.Name, c.Meta.ToolName, c.Category, "tool") }

// what returns what the tool is used for: a command, a file or something else.
func (c *acpCall) what() string {
	if paths := c.paths(); c.command() == "" && len(paths) > 0 {
		return paths[0]
	}
	return cmp.Or(mainArgument(c.Input), c.Title)
}

// command returns the command that the tool would give to a shell, "" for other tools.
func (c *acpCall) command() string {
	var input struct {
		Command string `json:"command"`
	}
	if c.Category == "execute" {
		_ = json.Unmarshal(c.Input, &input) // an input of another shape has no command
	}
	return input.Command
}

// ofServer reports whether the tool belongs to one of the servers.
func (c *acpCall) ofServer(servers map[string]MCPServer) bool {
	var input struct {
		Server string `json:"server"`
	}
	if c.Meta.OfMCP {
		_ = json.Unmarshal(c.Input, &input)
	}
	if _, named := servers[input.Server]; named || ofServer(c.tool(), servers) {
		return true
	}
	for name := range servers { // gemini puts the names into the id and the title
		if c.Category == "other" && strings.HasPrefix(c.ID, "mcp_"+name+"_") && strings.HasSuffix(c.Title, " ("+name+" MCP Server)") {
			return true
		}
	}
	return false
}

// acts reports whether the tool changes files or runs commands.
func (c *acpCall) acts() bool { return c.changesFiles() || c.Category == "execute" }

func (c *acpCall) changesFiles() bool {
	return slices.Contains([]string{"edit", "delete", "move"}, c.Category)
}

// paths returns the files that the tool is used on.
func (c *acpCall) paths() []string {
	var diffs []acpPath
	_ = json.Unmarshal(c.Content, &diffs) // content of another shape has no paths
	var paths []string
	for _, p := range append(diffs, c.Locations...) {
		if p.Path != "" {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// edits reports whether the tool only changes files in the folder.
func (c *acpCall) edits(folder string) bool {
	paths := c.paths()
	outside := func(path string) bool { return !isWithin(folder, path) }
	return c.changesFiles() && len(paths) > 0 && !slices.ContainsFunc(paths, outside)
}

// isWithin reports whether a file, which need not exist, is in the folder after all links, and not in the
// folder of git, where it could be a command.
func isWithin(folder, path string) bool {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil || !filepath.IsAbs(path) {
		return false
	}
	existing, rest := filepath.Clean(path), ""
	for {
		if _, err := os.Lstat(existing); err == nil {
			break
		}
		if existing == filepath.Dir(existing) {
			return false
		}
		existing, rest = filepath.Dir(existing), filepath.Join(filepath.Base(existing), rest)
	}
	existing, err = filepath.EvalSymlinks(existing)
	if err != nil {
		return false // a link to nothing
	}
	relative, err := filepath.Rel(folder, filepath.Join(existing, rest))
	return err == nil && filepath.IsLocal(relative) && !slices.Contains(strings.Split(relative, string(filepath.Separator)), ".git")
}

// acpRequest has the parameters of a program's requests.
type acpRequest struct {
	Call    acpCall `json:"toolCall"`
	Options []struct {
		ID   string `json:"optionId"`
		Kind string `json:"kind"`
	} `json:"options"`
	Path string `json:"path"`
}

// option returns the first option of the best kind, "" if there is none.
func (r *acpRequest) option(kinds ...string) string {
	for _, kind := range kinds {
		for _, option := range r.Options {
			if option.Kind == kind {
				return option.ID
			}
		}
	}
	return ""
}

// respond answers a request of the program. The driver offers no files and no terminals, so it refuses
// all requests but those for permission, and reports those for files outside the folder.
func (c *acp) respond(m *rpcMessage) rpcMessage {
	var request acpRequest
	_ = json.Unmarshal(m.Params, &request) // a request of another shape is denied
	answer := rpcMessage{Version: c.version, ID: m.ID}
	if m.Method != "session/request_permission" {
		// opencode also offers the files that it writes.
		if c.turn != nil && strings.HasPrefix(m.Method, "fs/") && !isWithin(c.dir, request.Path) {
			c.refused = mergeRefusals(c.refused, []Refusal{{Tool: m.Method, What: request.Path, Count: 1}})
		}
		answer.Error = &rpcError{Code: rpcNoMethod, Message: fmt.Sprintf("method not found: %.60q", m.Method)}
		return answer
	}
	call, choice := &request.Call, ""
	if c.turn != nil {
		call = c.call(call)
		call.asked = true
		if c.denialOf(call) == "" {
			choice = request.option("allow_once", "allow_always")
		} else {
			c.refuse(call)
		}
	}
	outcome := map[string]any{"outcome": "cancelled"}
	if choice = cmp.Or(choice, request.option("reject_once", "reject_always")); choice != "" {
		outcome = map[string]any{"outcome": "selected", "optionId": choice}
	}
	answer.Result = mustJSON(map[string]any{"outcome": outcome})
	return answer
}

// acpNeedsLogin is the code of the error for a program that is not logged in.
const acpNeedsLogin = -32000

// explained returns the error with what the program adds to it.
func (e *rpcError) explained() *ReportedError {
	var data struct {
		Details string `json:"details"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(e.Data, &data) // data of another shape says nothing
	text := e.Message
	if more := cmp.Or(data.Details, data.Message); more != "" && !strings.Contains(text, more) {
		text += ": " + more
	}
	if strings.Contains(text, "root/sudo") {
		text += "; if this machine is a sandbox, set IS_SANDBOX=1"
	}
	return &ReportedError{Text: visible.CutBytes(text, maxTail)}
}

// acpStatusPattern matches an HTTP status in what programs say of a failure.
var acpStatusPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:[Ss]tatus:? |[Aa]PI [Ee]rror:? |"code": ?|^|: )([45]\d\d)\b`)
})

// failure returns the error as one of the model's service, if it is that.
func (e *rpcError) failure(program string) error {
	err := e.explained()
	login := "log in with " + program
	if e.Code == acpNeedsLogin {
		return newAPIError(NotLoggedIn, 0, e.Message, login)
	}
	status := e.Code
	if match := acpStatusPattern().FindStringSubmatch(err.Error()); match != nil && (status < 400 || status > 599) {
		status, _ = strconv.Atoi(match[1]) // three digits
	}
	if status < 400 || status > 599 {
		status = 0
	}
	if kind := cmp.Or(kindOf(status), kindOfText(err.Error())); kind != "" {
		return newAPIError(kind, status, err.Text, login)
	}
	return err
}
