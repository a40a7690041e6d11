package agent

import (
	"context"
	"encoding/json"
	"fmt"
)

// codexRequest is what is read of a request of the app server.
type codexRequest struct {
	Command     string          `json:"command"`
	Reason      string          `json:"reason"`
	Message     string          `json:"message"`
	ServerName  string          `json:"serverName"`
	Permissions json.RawMessage `json:"permissions"`
	// Meta says whether an MCP server's question to the user is really the
	// program's, whether a tool may be used.
	Meta struct {
		Kind string `json:"codex_approval_kind"`
	} `json:"_meta"`
}

// detail is what a person would want to know of the request.
func (r *codexRequest) detail() string {
	for _, text := range []string{r.Command, r.Message, r.Reason} {
		if text != "" {
			return text
		}
	}
	return ""
}

// codexDecide answers a request of the app server, as a line.
func codexDecide(ctx context.Context, m *rpcMessage, approver Approver, trusted map[string]MCPServer) []byte {
	var request codexRequest
	if json.Unmarshal(m.Params, &request) != nil {
		request = codexRequest{} // of another shape: judged by its method
	}
	if _, ok := trusted[request.ServerName]; ok {
		approver = AllowAll
	}
	answers, known := codexAnswers(m.Method, &request)
	if !known {
		text := fmt.Sprintf("this client does not answer %.60q", m.Method)
		return rpcMessage{ID: m.ID, Error: &rpcError{Code: rpcNoMethod, Message: text}}.line()
	}
	answer := answers[1]
	if approve(ctx, approver, Approval{Tool: m.Method, Detail: request.detail(), Raw: m.Params}).Allow {
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
