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

// lines returns the keys of the table.
func (t table) lines() []string {
	words := make([]string, len(t.Args))
	for i, arg := range t.Args {
		words[i] = tomlString(arg)
	}
	return []string{
		"command = " + tomlString(t.Command), "args = [" + strings.Join(words, ", ") + "]", `default_tools_approval_mode = "approve"`,
	}
}

// tomlString quotes a string. A string of JSON is one of TOML, too.
func tomlString(text string) string {
	return strings.ReplaceAll(encode(text, "", ""), "\x7f", `\u007f`)
}

// parseTable decodes a file. It returns the server that is registered in it, or nil, and the rest.
func parseTable(data []byte) (entry, rest map[string]any, err error) {
	rest = make(map[string]any)
	if err := toml.Unmarshal(data, &rest); err != nil {
		if problem, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := problem.Position()
			err = &PositionError{Line: line, Column: column, Err: errors.New(strings.TrimPrefix(problem.Error(), "toml: "))}
		}
		return nil, nil, err
	}
	servers, ok := rest["mcp_servers"].(map[string]any)
	if !ok && rest["mcp_servers"] != nil {
		return nil, nil, errors.New("mcp_servers is not a table")
	}
	if entry, ok = servers[serverName].(map[string]any); !ok && servers[serverName] != nil {
		return nil, nil, errors.New("mcp_servers.oacp is not a table")
	}
	if delete(servers, serverName); len(servers) == 0 {
		delete(rest, "mcp_servers")
	}
	return entry, rest, nil
}

// check returns an error unless a file has these contents. The editing goes by lines, so this makes
// sure that it met no text that only looks like a table.
func check(data []byte, entry, rest map[string]any) error {
	gotEntry, gotRest, err := parseTable(data)
	if err != nil || !reflect.DeepEqual(gotEntry, entry) || !reflect.DeepEqual(gotRest, rest) {
		return ErrUnusual
	}
	return nil
}

// callOf returns the command line of a server.
func callOf(entry map[string]any) mcpCall {
	var c mcpCall
	c.Command, _ = entry["command"].(string)
	words, _ := entry["args"].([]any)
	for _, word := range words {
		text, _ := word.(string)
		c.Args = append(c.Args, text)
	}
	return c
}

func (t table) put(data []byte) ([]byte, error) {
	entry, rest, err := parseTable(data)
	if err != nil {
		return nil, err
	}
	newline, wanted := lineEnd(data), t.lines()
	text := strings.Join(append([]string{tableMark, tableHeader}, wanted...), newline) + newline
	own, _, err := parseTable([]byte(text))
	if err != nil {
		return nil, err
	}
	if entry == nil {
		after := appended(data, text, newline)
		return after, check(after, own, rest)
	}
	from, to, ok := tableSpan(data)
	found := callOf(entry)
	switch {
	case found.equal(t.mcpCall):
		return data, nil // also if the user registered it, and then it stays the user's
	case !ok || !found.isOurs():
		return nil, &OtherServerError{found.String()}
	}
	lines := strings.SplitAfter(string(data[from:to]), "\n")
	for i, line := range lines {
		for n, key := range []string{"command", "args"} {
			if name, _, isKey := strings.Cut(line, "="); isKey && strings.TrimSpace(name) == key {
				lines[i], entry[key] = wanted[n]+newline, own[key]
			}
		}
	}
	after := concat(data[:from], []byte(strings.Join(lines, "")), data[to:])
	return after, check(after, entry, rest)
}

// tableSpan returns the lines of our table, from the comment above it to its last key.
func tableSpan(data []byte) (from, to int, ok bool) {
	state, at := "", 0
	for line := range strings.SplitAfterSeq(string(data), "\n") {
		text := strings.TrimSpace(line)
		switch {
		case state == "" && text == tableMark:
			state, from = "marked", at
		case state == "marked":
			if state = ""; text == tableHeader {
				state = "inside"
			}
		case state == "inside" && strings.HasPrefix(text, "["), state == "inside" && strings.HasPrefix(text, "#"):
			return from, to, true
		}
		if at += len(line); state != "" && text != "" {
			to = at
		}
	}
	return from, to, state == "inside"
}

func (t table) take(data []byte) ([]byte, error) {
	entry, rest, err := parseTable(data)
	if err != nil {
		return nil, err
	}
	from, to, ok := tableSpan(data)
	if entry == nil || !ok {
		return data, nil // nothing there is ours
	}
	if err := checkOwn(entry, "command", "args", "default_tools_approval_mode", "tools"); err != nil {
		return nil, err
	}
	after := concat(withoutEmptyLine(data[:from]), withoutTablesBelow(data[to:]))
	if err := check(after, nil, rest); err != nil {
		return nil, fmt.Errorf("%w; take out %s by hand", err, tableHeader)
	}
	if len(bytes.TrimSpace(after)) == 0 {
		return nil, nil
	}
	return after, nil
}

// withoutTablesBelow removes the tables below ours, into which codex writes what its user decided
// about single tools. Without ours they would be an error.
func withoutTablesBelow(data []byte) []byte {
	var kept strings.Builder
	below := false
	for line := range strings.SplitAfterSeq(string(data), "\n") {
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "[") || strings.HasPrefix(text, "#") {
			below = strings.HasPrefix(text, tableBelow)
		}
		if !below {
			kept.WriteString(line)
		}
	}
	return []byte(kept.String())
}

func (table) registered(data []byte) (mcpCall, bool) {
	entry, _, err := parseTable(data)
	_, _, ok := tableSpan(data)
	return callOf(entry), ok && err == nil && entry != nil
}
