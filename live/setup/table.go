package setup

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// The table of the MCP server in codex's config.toml, and the comment above it.
const (
	tableMark   = "# oacp setup codex wrote this table, and oacp setup codex --remove takes it out."
	tableHeader = "[mcp_servers." + serverName + "]"
	tableBelow  = "[mcp_servers." + serverName + "."
)

// table is the part of codex's configuration that registers oacp mcp and lets codex use its tools
// without asking.
type table struct{ mcpCall }

func (table) name() string { return "MCP server" }

// lines returns the comment, the header and the keys. A JSON string is also a TOML string.
func (t table) lines() []string {
	words := make([]string, len(t.Args))
	for i, arg := range t.Args {
		words[i] = encode(arg)
	}
	return []string{
		tableMark, tableHeader,
		"command = " + encode(t.Command), "args = [" + strings.Join(words, ", ") + "]", `default_tools_approval_mode = "approve"`,
	}
}

// parseTable decodes a file. It returns the command line of our server's table, or nil, and the rest of the file.
func parseTable(data []byte) (call *mcpCall, rest map[string]any, err error) {
	rest = make(map[string]any)
	if err := toml.Unmarshal(data, &rest); err != nil {
		if problem, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := problem.Position()
			err = invalidAt(line, column, strings.TrimPrefix(problem.Error(), "toml: "))
		}
		return nil, nil, err
	}
	servers, ok := rest["mcp_servers"].(map[string]any)
	if !ok && rest["mcp_servers"] != nil {
		return nil, nil, refusal("bad_settings", "mcp_servers is not a table", mend)
	}
	entry, ok := servers[serverName].(map[string]any)
	if ok {
		call = &mcpCall{}
		call.Command, _ = entry["command"].(string)
		words, _ := entry["args"].([]any)
		for _, word := range words {
			call.Args = append(call.Args, fmt.Sprint(word))
		}
	}
	if delete(servers, serverName); len(servers) == 0 {
		delete(rest, "mcp_servers")
	}
	return call, rest, nil
}

// without returns the file without the table, and without the tables below it, in which codex records what its user
// decided about single tools. It edits lines, and then checks that the rest of the file still has its meaning.
func (table) without(data []byte, rest map[string]any) ([]byte, error) {
	var left bytes.Buffer
	inTable := false
	for line := range bytes.Lines(data) {
		text := strings.TrimSpace(string(line))
		switch {
		case text == tableMark, text == tableHeader, strings.HasPrefix(text, tableBelow):
			if !inTable {
				before := withoutEmptyLine(left.Bytes())
				left.Truncate(len(before))
			}
			inTable = true
		case strings.HasPrefix(text, "["), strings.HasPrefix(text, "#"):
			if inTable && left.Len() > 0 {
				left.WriteString(lineEnd(data))
			}
			inTable = false
		}
		if !inTable {
			left.Write(line)
		}
	}
	call, others, err := parseTable(left.Bytes())
	if err != nil || call != nil || !reflect.DeepEqual(others, rest) {
		return nil, fmt.Errorf("%w; remove %s by hand", errUnusual, tableHeader)
	}
	return left.Bytes(), nil
}

func (t table) put(data []byte) ([]byte, error) {
	call, rest, err := parseTable(data)
	if err != nil {
		return nil, err
	}
	if call != nil {
		if call.equal(t.mcpCall) {
			return data, nil
		}
		if err := call.check(); err != nil {
			return nil, err
		}
		if data, err = t.without(data, rest); err != nil {
			return nil, err
		}
	}
	newline := lineEnd(data)
	after := appended(data, strings.Join(t.lines(), newline)+newline, newline)
	if now, others, err := parseTable(after); err != nil || now == nil || !now.equal(t.mcpCall) || !reflect.DeepEqual(others, rest) {
		return nil, errUnusual
	}
	return after, nil
}

func (t table) take(data []byte) ([]byte, error) {
	call, rest, err := parseTable(data)
	if err != nil || call == nil || !call.isOurs() {
		return data, err
	}
	after, err := t.without(data, rest)
	if err != nil {
		return nil, err
	}
	return orNothing(after), nil
}
