package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// MarshalJSON encodes the message as an object with the fields of the file in canonical order,
// without absent ones. The field to is a string or, for several recipients, an array.
func (m *Message) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for _, name := range fieldNames {
		value := m.jsonField(name)
		if value.Kind == Absent {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), '"', ':')
		var err error
		if out, err = value.appendJSON(out); err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
	}
	return append(out, '}'), nil
}

// jsonField returns the value of a field, Absent if the message does not have it.
func (m *Message) jsonField(name string) Value {
	switch name {
	case "body":
		return m.Body
	case "to":
		if len(m.To) == 1 {
			return TextValue(string(m.To[0]))
		}
		names := Value{Kind: List}
		for _, to := range m.To {
			names.Items = append(names.Items, TextValue(string(to)))
		}
		if len(m.To) == 0 {
			names.Kind = Absent
		}
		return names
	}
	if text, _ := m.TextField(name); *text != "" {
		return TextValue(*text)
	}
	return Value{}
}

// UnmarshalJSON decodes what MarshalJSON encoded. Unknown and repeated fields are errors.
// UnmarshalJSON does not check the values.
func (m *Message) UnmarshalJSON(data []byte) error {
	var fields Value
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if fields.Kind != Mapping {
		return errors.New("a message is a JSON object")
	}
	var read Message
	for _, p := range fields.Pairs {
		if err := read.setJSONField(p.Key, p.Value); err != nil {
			return err
		}
	}
	*m = read
	return nil
}

func (m *Message) setJSONField(name string, v Value) error {
	switch name {
	case "body":
		m.Body = v
		return nil
	case "to":
		names := []Value{v}
		if v.Kind == List {
			names = v.Items
		}
		for _, n := range names {
			if n.Kind != Text {
				return errors.New("field to: not a name or a list of names")
			}
			m.To = append(m.To, AgentName(n.Text))
		}
		return nil
	}
	text, _ := m.TextField(name)
	switch {
	case text == nil:
		return fmt.Errorf("%q is not a field of a message", name)
	case v.Kind != Text:
		return fmt.Errorf("field %s: not a text", name)
	}
	*text = v.Text
	return nil
}

// MarshalJSON encodes text as a string, a list as an array, a mapping as an object with its keys in
// order, and an absent or null value as null.
func (v Value) MarshalJSON() ([]byte, error) { return v.appendJSON(nil) }

// appendJSON appends to one slice at every depth. The json package would copy the innermost value
// once for each level around it.
func (v Value) appendJSON(out []byte) (_ []byte, err error) {
	switch v.Kind {
	case Text:
		return appendJSONText(out, v.Text)
	case List:
		out = append(out, '[')
		for i, item := range v.Items {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = item.appendJSON(out); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	case Mapping:
		out = append(out, '{')
		for i, p := range v.Pairs {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = appendJSONText(out, p.Key); err != nil {
				return nil, err
			}
			if out, err = p.Value.appendJSON(append(out, ':')); err != nil {
				return nil, err
			}
		}
		return append(out, '}'), nil
	}
	return append(out, "null"...), nil
}

// appendJSONText encodes without HTML escapes, which are hard to read in logs and terminals.
func appendJSONText(out []byte, text string) ([]byte, error) {
	buffer := bytes.NewBuffer(out)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON decodes a JSON value. Numbers and booleans become text; a repeated key is an error.
func (v *Value) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	read, err := readJSONValue(decoder, 0)
	if err != nil {
		return err
	}
	*v = read
	return nil
}

func readJSONValue(decoder *json.Decoder, depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, fmt.Errorf("values nest deeper than %d", MaxDepth)
	}
	token, err := decoder.Token()
	if err != nil {
		return Value{}, err
	}
	switch token := token.(type) {
	case nil:
		return Value{Kind: Null}, nil
	case json.Delim:
		if token == '[' {
			return readJSONList(decoder, depth)
		}
		return readJSONMapping(decoder, depth)
	default:
		return TextValue(fmt.Sprint(token)), nil
	}
}

func readJSONList(decoder *json.Decoder, depth int) (Value, error) {
	list := Value{Kind: List}
	for decoder.More() {
		item, err := readJSONValue(decoder, depth+1)
		if err != nil {
			return Value{}, err
		}
		list.Items = append(list.Items, item)
	}
	_, err := decoder.Token()
	return list, err
}

func readJSONMapping(decoder *json.Decoder, depth int) (Value, error) {
	mapping := Value{Kind: Mapping}
	seen := make(map[string]bool)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return Value{}, err
		}
		key := fmt.Sprint(token)
		if seen[key] {
			return Value{}, fmt.Errorf("key %q is repeated", key)
		}
		seen[key] = true
		value, err := readJSONValue(decoder, depth+1)
		if err != nil {
			return Value{}, err
		}
		mapping.Pairs = append(mapping.Pairs, Pair{Key: key, Value: value})
	}
	_, err := decoder.Token()
	return mapping, err
}
