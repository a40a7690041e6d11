package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
type table struct {
	command string
	args    []string
}

func (table) name() string { return "MCP server" }

// lines returns the keys of the table.
func (t table) lines() []string {
	words := make([]string, len(t.args))
	for i, arg := range t.args {
		words[i] = tomlString(arg)
	}
	return []string{
		"command = " + tomlString(t.command), "args = [" + strings.Join(words, ", ") + "]", `default_tools_approval_mode = "approve"`,
	}
}

// tomlString quotes a string. A string of JSON is one of TOML, too.
func tomlString(text string) string {
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // every string can be encoded
	}
	return strings.ReplaceAll(strings.TrimSuffix(quoted.String(), "\n"), "\x7f", `\u007f`)
}

// parseTable decodes a file and returns the server that is registered in it, or nil.
func parseTable(data []byte) (all, entry map[string]any, err error) {
	if err := toml.Unmarshal(data, &all); err != nil {
		if problem, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := problem.Position()
			err = &PositionError{Line: line, Column: column, Err: errors.New(strings.TrimPrefix(problem.Error(), "toml: "))}
		}
		return nil, nil, err
	}
	servers, ok := all["mcp_servers"]
	if !ok {
		return all, nil, nil
	}
	named, ok := servers.(map[string]any)
	if !ok {
		return nil, nil, errors.New("mcp_servers is not a table")
	}
	if named[serverName] == nil {
		return all, nil, nil
	}
	if entry, ok = named[serverName].(map[string]any); !ok {
		return nil, nil, errors.New("mcp_servers.oacp is not a table")
	}
	return all, entry, nil
}

// entryOf returns the program and arguments of a server.
func entryOf(entry map[string]any) table {
	t := table{}
	t.command, _ = entry["command"].(string)
	words, _ := entry["args"].([]any)
	for _, word := range words {
		text, _ := word.(string)
		t.args = append(t.args, text)
	}
	return t
}

func (t table) put(data []byte) ([]byte, error) {
	all, entry, err := parseTable(data)
	if err != nil {
		return nil, err
	}
	newline := lineEnd(data)
	if entry == nil {
		return t.add(data, all, newline)
	}
	from, to, ok := tableSpan(data)
	found := entryOf(entry)
	if !ok && found.command == t.command && slices.Equal(found.args, t.args) {
		return data, nil // the user registered it, and it stays the user's
	}
	if !ok || !isOurServer(found.command, found.args) {
		return nil, &OtherServerError{commandLine(found.command, found.args)}
	}
	if found.command == t.command && slices.Equal(found.args, t.args) {
		return data, nil
	}
	lines := strings.SplitAfter(string(data[from:to]), "\n")
	wanted := t.lines()
	for i, line := range lines {
		for n, key := range []string{"command", "args"} {
			if name, _, isKey := strings.Cut(line, "="); isKey && strings.TrimSpace(name) == key {
				lines[i] = wanted[n] + newline
			}
		}
	}
	after := concat(data[:from], []byte(strings.Join(lines, "")), data[to:])
	entry["command"], entry["args"] = t.command, anySlice(t.args)
	return after, sameTables(after, all)
}

// add returns the file with the table at its end.
func (t table) add(data []byte, all map[string]any, newline string) ([]byte, error) {
	text := strings.Join(append([]string{tableMark, tableHeader}, t.lines()...), newline) + newline
	after := appended(data, text, newline)
	if all == nil {
		all = make(map[string]any)
	}
	if all["mcp_servers"] == nil {
		all["mcp_servers"] = make(map[string]any)
	}
	all["mcp_servers"].(map[string]any)[serverName] = map[string]any{
		"command": t.command, "args": anySlice(t.args), "default_tools_approval_mode": "approve",
	}
	return after, sameTables(after, all)
}

func anySlice(words []string) []any {
	var all []any
	for _, word := range words {
		all = append(all, word)
	}
	return all
}

// sameTables returns an error unless the file has these contents. The editing goes by lines, so this
// makes sure that it met no text that only looks like a table.
func sameTables(data []byte, want map[string]any) error {
	var got map[string]any
	err := toml.Unmarshal(data, &got)
	for _, all := range []map[string]any{got, want} {
		if servers, ok := all["mcp_servers"].(map[string]any); ok && len(servers) == 0 {
			delete(all, "mcp_servers")
		}
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		return ErrUnusual
	}
	return nil
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
	all, entry, err := parseTable(data)
	if err != nil {
		return nil, err
	}
	from, to, ok := tableSpan(data)
	if entry == nil || !ok {
		return data, nil // nothing there is ours
	}
	after := concat(withoutEmptyLine(data[:from]), withoutTablesBelow(data[to:]))
	servers := maps.Clone(all["mcp_servers"].(map[string]any))
	delete(servers, serverName)
	all["mcp_servers"] = servers
	if err := sameTables(after, all); err != nil {
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
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "[") {
			below = strings.HasPrefix(text, tableBelow)
		}
		if !below {
			kept.WriteString(line)
		}
	}
	return []byte(kept.String())
}

func (t table) like(data []byte) part {
	_, entry, err := parseTable(data)
	if _, _, ok := tableSpan(data); err != nil || entry == nil || !ok {
		return nil
	}
	return entryOf(entry)
}
