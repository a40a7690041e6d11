package setup

import (
	"slices"

	"github.com/tailscale/hujson"

	"github.com/oacp-go/oacp/internal/visible"
)

// serverName is the name under which the MCP server is registered.
const serverName = "oacp"

// server is the part of claude's configuration that registers oacp mcp.
type server struct {
	// path leads to the object of servers.
	path []string
	// command is the program, args its arguments.
	command string
	args    []string
}

// serverEntry is how claude itself writes a server.
type serverEntry struct {
	Type    string            `json:"type"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

func (server) name() string { return "MCP server" }

// isOurServer reports whether setup has registered the server.
func isOurServer(command string, args []string) bool {
	return isOACP(command) && len(args) == 3 && args[0] == "mcp" && args[1] == "--agent"
}

// entry returns the server that is registered, or nil.
func (s server) entry(d *document) (*hujson.Value, serverEntry, error) {
	var entry serverEntry
	v, err := d.find(append(slices.Clone(s.path), serverName)...)
	if err != nil || v == nil {
		return nil, entry, err
	}
	if decode(v, &entry) != nil {
		return v, serverEntry{}, nil
	}
	return v, entry, nil
}

func (s server) put(data []byte) ([]byte, error) {
	d, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	v, entry, err := s.entry(d)
	if err != nil {
		return nil, err
	}
	if v != nil && !isOurServer(entry.Command, entry.Args) {
		return nil, positioned(d.data, v.StartOffset, &OtherServerError{commandLine(entry.Command, entry.Args)})
	}
	if v != nil && entry.Command == s.command && slices.Equal(entry.Args, s.args) {
		return data, nil
	}
	in, err := d.object(s.path...)
	if err != nil {
		return nil, err
	}
	wanted := serverEntry{Type: "stdio", Command: s.command, Args: s.args, Env: map[string]string{}}
	if v != nil {
		d.replace(v, in, wanted)
	} else {
		d.insert(in, serverName, wanted)
	}
	return d.value.Pack(), nil
}

func commandLine(command string, args []string) string {
	if command == "" {
		return ""
	}
	return visible.Shell(append([]string{command}, args...)...)
}

func (s server) take(data []byte) ([]byte, error) {
	d, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	v, entry, err := s.entry(d)
	if err != nil || v == nil || !isOurServer(entry.Command, entry.Args) {
		return data, nil // nothing there is ours
	}
	servers, err := d.object(s.path...)
	if err != nil {
		return nil, err
	}
	removeMembers(servers.value.Value.(*hujson.Object), func(name string, _ *hujson.Value) bool { return name == serverName })
	d.prune(s.path...)
	return d.bytes(), nil
}

func (s server) like(data []byte) part {
	d, err := parseJSON(data)
	if err != nil {
		return nil
	}
	v, entry, err := s.entry(d)
	if err != nil || v == nil || !isOurServer(entry.Command, entry.Args) {
		return nil
	}
	s.command, s.args = entry.Command, entry.Args
	return s
}
