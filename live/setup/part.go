package setup

import (
	"bytes"
	"errors"
)

// A part is what oacp has in a file.
type part interface {
	name() string
	// put returns the file with the part in it, and the same bytes if it is there.
	put(data []byte) ([]byte, error)
	// take returns the file without the part, or the same bytes if it is not there, and nil if nothing
	// is left.
	take(data []byte) ([]byte, error)
}

// inJSON is a part of a JSON file.
type inJSON struct{ members }

// members are what a part consists of: hooks, server or permission.
type members interface {
	name() string
	// fill writes what is missing.
	fill(d *document) error
	// ours returns the path of something that is there, or nil.
	ours(d *document) (path []any, err error)
}

func (p inJSON) put(data []byte) ([]byte, error) {
	d, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	err = p.fill(d)
	return d.data, err
}

func (p inJSON) take(data []byte) ([]byte, error) {
	d, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	for before := d.data; ; {
		path, err := p.ours(d)
		switch {
		case err != nil:
			return nil, err
		case path != nil:
			d.remove(path...)
		case bytes.Equal(d.data, before):
			return data, nil
		case len(d.items(d.root())) == 0:
			return nil, nil
		default:
			return d.data, nil
		}
	}
}

// registered returns the MCP server in a file, if setup wrote it.
func (p inJSON) registered(data []byte) (mcpCall, bool) {
	s, ok := p.members.(server)
	d, err := parseJSON(data)
	if !ok || err != nil {
		return mcpCall{}, false
	}
	_, call, _ := s.find(d)
	return call, call.isOurs()
}

// each applies a method of several parts to a file.
func each(parts []part, do func(part, []byte) ([]byte, error), data []byte) (after []byte, err error) {
	after = data
	for _, p := range parts {
		if after, err = do(p, after); err != nil {
			return nil, err
		}
	}
	return after, nil
}

// holds reports whether a part is in a file.
func holds(p part, data []byte) bool {
	rest, err := p.take(data)
	return errors.Is(err, errAdded) || err == nil && !bytes.Equal(rest, data)
}
