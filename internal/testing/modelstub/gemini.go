package modelstub

import (
	"encoding/json"
	"net/http"
	"strings"
)

// geminiRequest has the fields of a request to the Gemini API that the stub reads.
type geminiRequest struct {
	System   geminiContent   `json:"systemInstruction"`
	Contents []geminiContent `json:"contents"`
	Tools    []struct {
		Functions []struct {
			Name string `json:"name"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
}

type geminiContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text     string `json:"text"`
		Response *struct {
			ID       string          `json:"id"`
			Response json.RawMessage `json:"response"`
		} `json:"functionResponse"`
	} `json:"parts"`
}

func readGemini(r *http.Request, body []byte) (Request, error) {
	var m geminiRequest
	if err := json.Unmarshal(body, &m); err != nil {
		return Request{}, err
	}
	model, _, _ := strings.Cut(r.PathValue("call"), ":")
	request := Request{API: Gemini, Model: model, Body: body}
	for _, part := range m.System.Parts {
		request.Context = append(request.Context, part.Text)
	}
	for _, tools := range m.Tools {
		for _, tool := range tools.Functions {
			request.Tools = append(request.Tools, tool.Name)
		}
	}
	for _, content := range m.Contents {
		if content.Role != "user" {
			request.Results = nil
			continue
		}
		for _, part := range content.Parts {
			switch {
			case part.Response != nil:
				request.Results = append(request.Results, ToolResult{ID: part.Response.ID, Output: string(part.Response.Response)})
			case strings.HasPrefix(strings.TrimSpace(part.Text), "<"):
				request.Context = append(request.Context, part.Text)
			case part.Text != "":
				request.Prompt = part.Text
				request.Prompts = append(request.Prompts, part.Text)
			}
		}
	}
	return request, nil
}

// streamGemini writes an answer as events without names.
func streamGemini(e *events, _ Request, reply Reply) {
	var parts []any
	for i, piece := range pieces(reply.Text) {
		if piece == "" {
			continue
		}
		if i > 0 {
			e.pause(reply)
		}
		e.data(map[string]any{"candidates": []any{map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": []any{map[string]any{"text": piece}}}}}})
	}
	if len(reply.Text) < 2 {
		e.pause(reply)
	}
	for i, call := range reply.Calls {
		parts = append(parts, map[string]any{"functionCall": map[string]any{"id": e.id("call", i), "name": call.Name, "args": call.Input}})
	}
	if len(parts) == 0 {
		parts = []any{map[string]any{"text": ""}}
	}
	e.data(map[string]any{
		"candidates":    []any{map[string]any{"index": 0, "finishReason": "STOP", "content": map[string]any{"role": "model", "parts": parts}}},
		"usageMetadata": map[string]any{"promptTokenCount": InputTokens, "candidatesTokenCount": OutputTokens, "totalTokenCount": InputTokens + OutputTokens},
	})
}
