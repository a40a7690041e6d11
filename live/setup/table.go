package setup

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
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

// tomlString quotes a string. A JSON string is also a TOML string.
func tomlString(text string) string {
	return strings.ReplaceAll(encode(text, "", ""), "\x7f", `\u007f`)
}

// parseTable decodes a file. It returns the server that is registered in it, or nil, and the rest.
func parseTable(data []byte) (entry, rest map[string]any, err error) {
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
		return errUnusual
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

// blocks splits a file before each line that begins with a bracket, as tables do, or is a comment.
func blocks(data []byte) (all [][]byte) {
	from, at := 0, 0
	for line := range bytes.SplitAfterSeq(data, []byte("\n")) {
		if text := bytes.TrimSpace(line); bytes.HasPrefix(text, []byte("[")) || bytes.HasPrefix(text, []byte("#")) {
			all, from = append(all, data[from:at]), at
		}
		at += len(line)
	}
	return append(all, data[from:])
}

// indexOfTable returns which of the blocks is our table, behind the one that is the comment, or -1.
func indexOfTable(all [][]byte) int {
	for i, block := range all {
		header, _, _ := bytes.Cut(block, []byte("\n"))
		if i > 0 && string(bytes.TrimSpace(all[i-1])) == tableMark && string(bytes.TrimSpace(header)) == tableHeader {
			return i
		}
	}
	return -1
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
	all := blocks(data)
	at, found := indexOfTable(all), callOf(entry)
	switch {
	case found.equal(t.mcpCall):
		return data, nil // also if the user registered it, and then it stays the user's
	case at < 0 || !found.isOurs():
		return nil, found.other()
	}
	lines := strings.SplitAfter(string(all[at]), "\n")
	for i, line := range lines {
		for n, key := range []string{"command", "args"} {
			if name, _, isKey := strings.Cut(line, "="); isKey && strings.TrimSpace(name) == key {
				lines[i], entry[key] = wanted[n]+newline, own[key]
			}
		}
	}
	all[at] = []byte(strings.Join(lines, ""))
	after := concat(all...)
	return after, check(after, entry, rest)
}

// take also removes the tables below ours, into which codex writes what its user decided about single
// tools. Without ours they would be an error.
func (t table) take(data []byte) ([]byte, error) {
	entry, rest, err := parseTable(data)
	if err != nil {
		return nil, err
	}
	all := blocks(data)
	at := indexOfTable(all)
	if entry == nil || at < 0 {
		return data, nil // nothing there is ours
	}
	if err := checkOwn(entry, "command", "args", "default_tools_approval_mode", "tools"); err != nil {
		return nil, err
	}
	spaceBelow := bytes.TrimPrefix(all[at], bytes.TrimRight(all[at], " \t\r\n"))
	if _, lines, ok := bytes.Cut(spaceBelow, []byte("\n")); ok {
		spaceBelow = lines // without the end of the last line
	}
	below := slices.DeleteFunc(all[at+1:], func(block []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(block), []byte(tableBelow)) })
	after := concat(withoutEmptyLine(concat(all[:at-1]...)), spaceBelow, concat(below...))
	if err := check(after, nil, rest); err != nil {
		return nil, fmt.Errorf("%w; take out %s by hand", err, tableHeader)
	}
	if len(bytes.TrimSpace(after)) == 0 {
		return nil, nil
	}
	return after, nil
}

func (table) registered(data []byte) (mcpCall, bool) {
	entry, _, err := parseTable(data)
	return callOf(entry), err == nil && entry != nil && indexOfTable(blocks(data)) >= 0
}
