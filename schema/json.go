package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// MarshalJSON renders the message as an object with the fields of the file,
// in canonical order, absent ones left out; to is a string or, for several
// recipients, an array.
func (m *Message) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for _, name := range fieldNames {
		var value any
		switch name {
		case "to":
			value = m.To
			if len(m.To) == 1 {
				value = m.To[0]
			}
		case "body":
			value = m.Body
		default:
			text, _ := m.TextField(name)
			if *text == "" {
				continue
			}
			value = *text
		}
		encoded, err := marshalPlain(value)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), name...), '"', ':'), encoded...)
	}
	return append(out, '}'), nil
}

// marshalPlain encodes without the HTML escapes that would make text in logs
// and terminals hard to read.
func marshalPlain(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON reads what MarshalJSON wrote. Unknown and repeated fields are
// errors; the values are not judged.
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
		return fmt.Errorf("%q is no field of a message", name)
	case v.Kind != Text:
		return fmt.Errorf("field %s: not a text", name)
	}
	*text = v.Text
	return nil
}

// MarshalJSON renders a text as a string, a list as an array, a mapping as an
// object with its keys in order, and an absent or null value as null.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.Kind {
	case Text:
		return marshalPlain(v.Text)
	case List:
		if v.Items == nil {
			return []byte("[]"), nil
		}
		return marshalPlain(v.Items)
	case Mapping:
		out := []byte{'{'}
		for i, p := range v.Pairs {
			key, err := marshalPlain(p.Key)
			if err != nil {
				return nil, err
			}
			value, err := p.Value.MarshalJSON()
			if err != nil {
				return nil, err
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(append(append(out, key...), ':'), value...)
		}
		return append(out, '}'), nil
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads a JSON value; numbers and booleans become the text that
// stands there, and a repeated key is an error.
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
			return Value{}, fmt.Errorf("key %q stands twice", key)
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
