package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/jsonl"
)

// A member is a field of a JSON object. Values stay as they were written.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of an object in their order. A missing object, nil, has none.
func members(object json.RawMessage) (all []member, err error) {
	if object == nil {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, &kindError{"", "an object"}
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		all = append(all, member{name.(string), value})
	}
	return all, nil
}

// An edit returns the new value for a value of JSON. Nil stands for a missing value: an edit may get it, and returns it to
// remove the value.
type edit func(value json.RawMessage) (json.RawMessage, error)

// at returns the edit of an object that changes the value at a path in it with e. It adds missing objects on the path,
// and removes those that become empty.
func (e edit) at(path ...string) edit {
	if len(path) == 0 {
		return e
	}
	name, inner := path[0], e.at(path[1:]...)
	return func(object json.RawMessage) (json.RawMessage, error) {
		all, err := members(object)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(m member) bool { return m.name == name })
		var before json.RawMessage
		if i >= 0 {
			before = all[i].value
		}
		after, err := inner(before)
		switch {
		case err != nil:
			return nil, inField(name, err)
		case bytes.Equal(before, after):
			return object, nil
		case after == nil:
			all = slices.Delete(all, i, i+1)
		case i < 0:
			all = append(all, member{name, after})
		default:
			all[i].value = after
		}
		return joined(all), nil
	}
}

// joined returns the object with the members, or nil if there are none.
func joined(all []member) json.RawMessage {
	if len(all) == 0 {
		return nil
	}
	fields := make([]string, len(all))
	for i, m := range all {
		fields[i] = encode(m.name) + ":" + string(m.value)
	}
	return json.RawMessage("{" + strings.Join(fields, ",") + "}")
}

// elements returns the elements of an array. A missing array, nil, has none.
func elements(array json.RawMessage) (all []json.RawMessage, err error) {
	if array != nil && json.Unmarshal(array, &all) != nil {
		return nil, &kindError{"", "an array"}
	}
	return all, nil
}

// each returns the edit of an array that changes each of its elements with e, and removes an array that becomes empty.
func (e edit) each() edit {
	return func(array json.RawMessage) (json.RawMessage, error) {
		before, err := elements(array)
		if err != nil {
			return nil, err
		}
		changed := false
		var after []json.RawMessage
		for _, one := range before {
			other, err := e(one)
			if err != nil {
				return nil, err
			}
			changed = changed || !bytes.Equal(one, other)
			if other != nil {
				after = append(after, other)
			}
		}
		switch {
		case !changed:
			return array, nil
		case after == nil:
			return nil, nil
		}
		return json.RawMessage(encode(after)), nil
	}
}

// inFile changes the object that a file consists of. If it changes, the file is indented by two spaces, as claude and
// codex do. It returns nil if nothing is left.
func (e edit) inFile(data []byte) ([]byte, error) {
	object := json.RawMessage(bytes.TrimSpace(data))
	if len(object) == 0 {
		object = nil
	} else if err := json.Unmarshal(object, new(json.RawMessage)); err != nil {
		problem, at := err.Error(), len(data)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && !strings.HasPrefix(problem, "unexpected end") {
			at = min(at, len(data)-len(bytes.TrimLeft(data, " \t\r\n"))+int(syntax.Offset)-1)
		}
		return nil, invalid(data, at, problem)
	}
	after, err := e(object)
	switch {
	case err != nil:
		if kind, ok := errors.AsType[*kindError](err); ok {
			err = refusal("bad_settings", kind.Error(), mend)
		}
		return nil, err
	case bytes.Equal(object, after):
		return data, nil
	case after == nil:
		return nil, nil
	}
	var text bytes.Buffer
	if err := json.Indent(&text, after, "", "  "); err != nil {
		return nil, err
	}
	text.WriteByte('\n')
	return text.Bytes(), nil
}

// sameJSON reports whether a value is the encoded content, apart from white space.
func sameJSON(value json.RawMessage, content any) bool {
	var compact bytes.Buffer
	return json.Compact(&compact, value) == nil && compact.String() == encode(content)
}

// encode writes a value as JSON, without the escapes for HTML.
func encode(content any) string {
	line, err := jsonl.Encode(content)
	if err != nil {
		panic(err) // it is one of our own types
	}
	return strings.TrimSuffix(string(line), "\n")
}
