package agent

import (
	"context"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveMCP serves MCP with one tool, which returns its argument and the name of the speaker.
func serveMCP(speaker string) int {
	type input struct {
		Text string `json:"text" jsonschema:"what to say"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "parrot", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "say", Description: "says the text"},
		func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
			text := fmt.Sprintf("%s says %s", speaker, in.Text)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
