package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// MarshalJSON encodes the message as an object with the fields of the file in canonical order,
// without absent ones, and then its marks. The field to is a string or, for several recipients, an array.
func (m *Message) MarshalJSON() ([]byte, error) {
	object := Value{Kind: Mapping}
	for _, f := range fields {
		var value Value
		switch f.name {
		case "body":
			value = m.Body
		case "to":
			value = m.recipients()
		default:
			if text := *f.text(m); text != "" {
				value = TextValue(text)
			}
		}
		if value.Kind != Absent {
			object.Pairs = append(object.Pairs, Pair{f.name, value})
		}
	}
	marks := m.marksJSON()
	if marks == "" {
		return object.MarshalJSON()
	}
	var out bytes.Buffer
	if len(object.Pairs) > 0 {
		object.writeJSON(&out)
		out.Truncate(out.Len() - 1)
		marks = "," + marks[1:]
	}
	out.WriteString(marks)
	return out.Bytes(), nil
}

func (m *Message) recipients() (names Value) {
	if len(m.To) == 1 {
		return TextValue(string(m.To[0]))
	}
	for _, to := range m.To {
		names.Kind = List
		names.Items = append(names.Items, TextValue(string(to)))
	}
	return names
}

// UnmarshalJSON decodes what MarshalJSON encoded. Unknown and repeated fields are errors.
// UnmarshalJSON does not check the values.
func (m *Message) UnmarshalJSON(data []byte) error {
	var object Value
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	if object.Kind != Mapping {
		return errors.New("a message is a JSON object")
	}
	var read Message
	isMarked := false
	for _, p := range object.Pairs {
		if slices.Contains(markNames, p.Key) {
			isMarked = true
		} else if err := read.setJSONField(p.Key, p.Value); err != nil {
			return err
		}
	}
	if !isMarked {
		read.SetContext(read.ContextKeys) // that of an earlier version
	} else if err := cmp.Or(json.Unmarshal(data, &read.Marks), read.Marks.Check()); err != nil {
		return err
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
func (v Value) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	v.writeJSON(&out)
	return out.Bytes(), nil
}

// writeJSON writes to one buffer at every depth. The json package would copy the innermost value
// once for each level around it.
func (v Value) writeJSON(out *bytes.Buffer) {
	switch v.Kind {
	case Text:
		writeJSONText(out, v.Text)
	case List:
		out.WriteByte('[')
		for i, item := range v.Items {
			if i > 0 {
				out.WriteByte(',')
			}
			item.writeJSON(out)
		}
		out.WriteByte(']')
	case Mapping:
		out.WriteByte('{')
		for i, p := range v.Pairs {
			if i > 0 {
				out.WriteByte(',')
			}
			writeJSONText(out, p.Key)
			out.WriteByte(':')
			p.Value.writeJSON(out)
		}
		out.WriteByte('}')
	default:
		out.WriteString("null")
	}
}

// writeJSONText encodes without HTML escapes, which are hard to read in logs and terminals.
func writeJSONText(out *bytes.Buffer, text string) {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)    // a text can be encoded
	out.Truncate(out.Len() - 1) // the line feed
}

// UnmarshalJSON decodes a JSON value. Numbers and booleans become text; a repeated key is an error.
func (v *Value) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	read, err := readJSON(decoder, 0)
	if err != nil {
		return err
	}
	*v = read
	return nil
}

func readJSON(decoder *json.Decoder, depth int) (v Value, err error) {
	if depth > MaxDepth {
		return v, fmt.Errorf("values nest deeper than %d", MaxDepth)
	}
	token, err := decoder.Token()
	if err != nil {
		return v, err
	}
	switch token {
	case nil:
		return Value{Kind: Null}, nil
	case json.Delim('['):
		v.Kind = List
	case json.Delim('{'):
		v.Kind = Mapping
	default:
		return TextValue(fmt.Sprint(token)), nil
	}
	seen := make(map[string]bool)
	for decoder.More() {
		key := ""
		if v.Kind == Mapping {
			token, err := decoder.Token()
			if err != nil {
				return v, err
			}
			key = fmt.Sprint(token)
			if seen[key] {
				return v, fmt.Errorf("key %q is repeated", key)
			}
			seen[key] = true
		}
		value, err := readJSON(decoder, depth+1)
		if err != nil {
			return v, err
		}
		if v.Kind == Mapping {
			v.Pairs = append(v.Pairs, Pair{key, value})
		} else {
			v.Items = append(v.Items, value)
		}
	}
	_, err = decoder.Token()
	return v, err
}
