package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// codexRequest is what is read of a request of the app server.
type codexRequest struct {
	Command     string          `json:"command"`
	Reason      string          `json:"reason"`
	Message     string          `json:"message"`
	ServerName  string          `json:"serverName"`
	Permissions json.RawMessage `json:"permissions"`
	// ItemID is the item that the request is about; GrantRoot the folder below
	// which files are to be written from now on.
	ItemID    string `json:"itemId"`
	GrantRoot string `json:"grantRoot"`
	// Network is what a command wants to connect to.
	Network *struct {
		Host     string `json:"host"`
		Protocol string `json:"protocol"`
	} `json:"networkApprovalContext"`
	// Meta says whether an MCP server's question to the user is really the
	// program's, whether a tool may be used.
	Meta struct {
		Kind string `json:"codex_approval_kind"`
	} `json:"_meta"`
}

// detail is what a person would want to know of the request, which is about
// the changes of the item.
func (r *codexRequest) detail(item *codexItem) string {
	var parts []string
	add := func(format, text string) {
		if text != "" {
			parts = append(parts, fmt.Sprintf(format, text))
		}
	}
	add("%s", r.Command)
	add("%s", r.Message)
	if item != nil {
		for _, change := range item.Changes {
			add("%s", change.Kind.Type+" "+change.Path+"\n"+change.Diff)
		}
	}
	if r.Network != nil {
		add("connect to %s", r.Network.Protocol+" "+r.Network.Host)
	}
	add("write below %s from now on", r.GrantRoot)
	add("permissions %s", string(r.Permissions))
	if len(parts) == 0 {
		add("%s", r.Reason)
	}
	return cutText(strings.TrimSpace(strings.Join(parts, "\n")), maxTail)
}

// codexAsked is a request of the app server, with what it is about.
type codexAsked struct {
	message *rpcMessage
	request codexRequest
	item    *codexItem
}

// readAsked reads a request. The items are those that have begun and not
// ended.
func readAsked(m *rpcMessage, items map[string]*codexItem) *codexAsked {
	asked := &codexAsked{message: m}
	if json.Unmarshal(m.Params, &asked.request) != nil {
		asked.request = codexRequest{} // of another shape: judged by its method
	}
	asked.item = items[asked.request.ItemID]
	return asked
}

// decide answers the request, as a line.
func (a *codexAsked) decide(ctx context.Context, approver Approver, trusted map[string]MCPServer) []byte {
	m := a.message
	if _, ok := trusted[a.request.ServerName]; ok {
		approver = AllowAll
	}
	answers, known := codexAnswers(m.Method, &a.request)
	if !known {
		text := fmt.Sprintf("this client does not answer %.60q", m.Method)
		return rpcMessage{ID: m.ID, Error: &rpcError{Code: rpcNoMethod, Message: text}}.line()
	}
	answer := answers[1]
	if approve(ctx, approver, Approval{Tool: m.Method, Detail: a.request.detail(a.item), Raw: m.Params}).Allow {
		answer = answers[0]
	}
	data, err := json.Marshal(answer)
	if err != nil {
		panic(err) // the permissions were read as JSON
	}
	return rpcMessage{ID: m.ID, Result: data}.line()
}

// codexAnswers returns the answers to a request: the one that allows and the
// one that denies. It reports false if nobody can allow what is asked for.
func codexAnswers(method string, request *codexRequest) ([2]map[string]any, bool) {
	decisions := func(allow, deny string) ([2]map[string]any, bool) {
		return [2]map[string]any{{"decision": allow}, {"decision": deny}}, true
	}
	switch method {
	case "item/commandExecution/requestApproval", "item/fileChange/requestApproval":
		return decisions("accept", "decline")
	case "mcpServer/elicitation/request":
		accept, decline := map[string]any{"action": "accept", "content": map[string]any{}}, map[string]any{"action": "decline"}
		if request.Meta.Kind != "mcp_tool_call" {
			accept = decline // a form that nobody can fill in
		}
		return [2]map[string]any{accept, decline}, true
	case "item/permissions/requestApproval":
		nothing := json.RawMessage(`{}`)
		asked := request.Permissions
		if asked == nil {
			asked = nothing
		}
		return [2]map[string]any{{"permissions": asked}, {"permissions": nothing}}, true
	}
	return [2]map[string]any{}, false
}
