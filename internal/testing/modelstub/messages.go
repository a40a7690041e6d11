package modelstub

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
)

// messagesRequest has the fields of a request to the Messages API that the stub reads.
type messagesRequest struct {
	Model    string  `json:"model"`
	System   content `json:"system"`
	Messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// content is a text, or a list of blocks.
type content []block

type block struct {
	Type      string  `json:"type"`
	Text      string  `json:"text"`
	ToolUseID string  `json:"tool_use_id"`
	Content   content `json:"content"`
}

func (c *content) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = content{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(data, (*[]block)(c))
}

// reminder reports whether claude added the block to the text of the user.
func (b block) reminder() bool {
	return strings.HasPrefix(strings.TrimSpace(b.Text), "<system-reminder>")
}

// text returns the text in the content, without the reminders that claude adds.
func (c content) text() string {
	return text(c.texts(func(b block) bool { return !b.reminder() }))
}

// texts returns the texts of the blocks for which keep returns true.
func (c content) texts(keep func(block) bool) []string {
	var texts []string
	for _, b := range c {
		if b.Text != "" && keep(b) {
			texts = append(texts, b.Text)
		}
	}
	return texts
}

// every keeps each block.
func every(block) bool { return true }

func readMessages(r *http.Request, body []byte) (Request, error) {
	var m messagesRequest
	if err := json.Unmarshal(body, &m); err != nil {
		return Request{}, err
	}
	request := Request{
		API: Messages, Session: r.Header.Get("X-Claude-Code-Session-Id"), Model: m.Model, Context: m.System.texts(every), Body: body,
	}
	for _, tool := range m.Tools {
		request.Tools = append(request.Tools, tool.Name)
	}
	for _, message := range m.Messages {
		switch message.Role {
		case "assistant":
			request.Results = nil
		case "system":
			request.Context = append(request.Context, message.Content.texts(every)...)
		case "user":
			request.Context = append(request.Context, message.Content.texts(block.reminder)...)
			for _, b := range message.Content {
				if b.Type == "tool_result" {
					request.Results = append(request.Results, ToolResult{ID: b.ToolUseID, Output: b.Content.text()})
				}
			}
			if said := message.Content.text(); said != "" {
				request.Prompts = append(request.Prompts, said)
				request.Prompt = said
			}
		}
	}
	return request, nil
}

func streamMessages(e *events, request Request, reply Reply) {
	usage := map[string]any{
		"input_tokens": InputTokens - cachedTokens, "cache_read_input_tokens": cachedTokens,
		"cache_creation_input_tokens": 0, "output_tokens": 1,
	}
	e.send("message_start", map[string]any{"message": map[string]any{
		"id": e.id("msg", 0), "type": "message", "role": "assistant", "model": request.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage,
	}})
	index := 0
	if reply.Text != "" || len(reply.Calls) == 0 {
		streamBlock(e, index, map[string]any{"type": "text", "text": ""}, "text_delta", "text", pieces(reply.Text), reply)
		index++
	}
	stop := "end_turn"
	for _, call := range reply.Calls {
		stop = "tool_use"
		input, err := json.Marshal(call.Input)
		if err != nil {
			panic(err)
		}
		start := map[string]any{"type": "tool_use", "id": e.id("toolu", index), "name": call.Name, "input": map[string]any{}}
		streamBlock(e, index, start, "input_json_delta", "partial_json", pieces(string(input)), Reply{})
		index++
	}
	stop = cmp.Or(reply.Stop, stop)
	e.send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": OutputTokens},
	})
	e.send("message_stop", map[string]any{})
}

func streamBlock(e *events, index int, start map[string]any, delta, field string, parts []string, reply Reply) {
	e.send("content_block_start", map[string]any{"index": index, "content_block": start})
	for i, part := range parts {
		if i == len(parts)-1 {
			e.pause(reply)
		}
		e.send("content_block_delta", map[string]any{"index": index, "delta": map[string]any{"type": delta, field: part}})
	}
	e.send("content_block_stop", map[string]any{"index": index})
}
