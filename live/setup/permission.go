package setup

import "github.com/tailscale/hujson"

// allowed is what claude calls all tools of the MCP server.
const allowed = "mcp__" + serverName

// permission is the part of claude's settings that lets it use the tools of the MCP server without
// asking.
type permission struct{}

func (permission) name() string { return "permission" }

func isAllowed(v *hujson.Value) bool { return equal(v, allowed) }

func (permission) put(data []byte) ([]byte, error) {
	d, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	list, err := d.array("permissions", "allow")
	if err != nil {
		return nil, err
	}
	for _, v := range list.value.Value.(*hujson.Array).Elements {
		if isAllowed(&v) {
			return data, nil
		}
	}
	d.insert(list, "", allowed)
	return d.value.Pack(), nil
}

func (permission) take(data []byte) ([]byte, error) {
	d, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	list, err := d.find("permissions", "allow")
	if err != nil || list == nil {
		return data, nil // nothing there is ours
	}
	array, ok := list.Value.(*hujson.Array)
	if !ok || !removeElements(array, isAllowed) {
		return data, nil
	}
	d.prune("permissions", "allow")
	return d.bytes(), nil
}

func (p permission) like(data []byte) part {
	if after, err := p.take(data); err != nil || len(after) == len(data) {
		return nil
	}
	return p
}
