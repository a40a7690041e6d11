package modelstub

import (
	"encoding/json"
	"net/http"
	"strings"
)

// responsesRequest has the fields of a request to the Responses API that the stub reads.
type responsesRequest struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions"`
	CacheKey     string          `json:"prompt_cache_key"`
	Input        []responsesItem `json:"input"`
	Tools        []responsesTool `json:"tools"`
}

type responsesItem struct {
	Type    string  `json:"type"`
	Role    string  `json:"role"`
	Content content `json:"content"`
	CallID  string  `json:"call_id"`
	Output  content `json:"output"`
}

type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"`
}

// prompt returns the text of the user in the item, or "". Items that codex adds have the same role, but
// begin with a tag or a title.
func (i *responsesItem) prompt() string {
	if i.Type != "message" || i.Role != "user" {
		return ""
	}
	said := i.Content.text()
	if strings.HasPrefix(said, "<") || strings.HasPrefix(said, "# AGENTS.md") {
		return ""
	}
	return said
}

func readResponses(_ *http.Request, body []byte) (Request, error) {
	var m responsesRequest
	if err := json.Unmarshal(body, &m); err != nil {
		return Request{}, err
	}
	request := Request{API: Responses, Session: m.CacheKey, Model: m.Model, Body: body}
	for _, tool := range m.Tools {
		request.Tools = append(request.Tools, tool.names()...)
	}
	if m.Instructions != "" {
		request.Context = []string{m.Instructions}
	}
	for _, item := range m.Input {
		switch {
		case strings.HasSuffix(item.Type, "_call_output"):
			request.Results = append(request.Results, ToolResult{ID: item.CallID, Output: item.Output.text()})
		case item.Type == "message" && item.Role == "assistant", strings.HasSuffix(item.Type, "_call"):
			request.Results = nil
		}
		if said := item.prompt(); said != "" {
			request.Prompts = append(request.Prompts, said)
			request.Prompt, request.Results = said, nil
		} else if item.Type == "message" && item.Role != "assistant" {
			request.Context = append(request.Context, item.Content.texts(every)...)
		}
	}
	return request, nil
}

// names returns the tool's name, or those of the tools in a namespace with its prefix.
func (t *responsesTool) names() []string {
	if len(t.Tools) == 0 {
		return []string{t.Name}
	}
	var names []string
	for _, tool := range t.Tools {
		names = append(names, t.Name+"."+tool.Name)
	}
	return names
}

func streamResponses(e *events, _ Request, reply Reply) {
	response := e.id("resp", 0)
	e.send("response.created", map[string]any{"response": map[string]any{"id": response}})
	index := 0
	if reply.Text != "" || len(reply.Calls) == 0 {
		streamText(e, reply)
		index++
	}
	for _, call := range reply.Calls {
		e.send("response.output_item.done", map[string]any{"output_index": index, "item": call.item(e.id("call", index))})
		index++
	}
	e.send("response.completed", map[string]any{"response": map[string]any{
		"id": response,
		"usage": map[string]any{
			"input_tokens": InputTokens, "input_tokens_details": map[string]any{"cached_tokens": cachedTokens},
			"output_tokens": OutputTokens, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
			"total_tokens": InputTokens + OutputTokens,
		},
	}})
}

func streamText(e *events, reply Reply) {
	item := map[string]any{"type": "message", "role": "assistant", "id": e.id("msg", 0), "content": []any{}}
	e.send("response.output_item.added", map[string]any{"output_index": 0, "item": item})
	parts := pieces(reply.Text)
	for i, part := range parts {
		if i == len(parts)-1 {
			e.pause(reply)
		}
		e.send("response.output_text.delta", map[string]any{
			"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": part,
		})
	}
	item["content"] = []any{map[string]any{"type": "output_text", "text": reply.Text}}
	e.send("response.output_item.done", map[string]any{"output_index": 0, "item": item})
}

// item returns the call as an item of the answer. A dot in the name separates the namespace from
// the tool.
func (c ToolCall) item(id string) map[string]any {
	item := map[string]any{"call_id": id}
	namespace, name, ok := strings.Cut(c.Name, ".")
	if ok {
		item["namespace"], item["name"] = namespace, name
	} else {
		item["name"] = c.Name
	}
	if input, free := c.Input.(string); free {
		item["type"], item["input"] = "custom_tool_call", input
		return item
	}
	arguments, err := json.Marshal(c.Input)
	if err != nil {
		panic(err)
	}
	item["type"], item["arguments"] = "function_call", string(arguments)
	return item
}
