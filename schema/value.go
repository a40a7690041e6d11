package schema

// Kind is the shape of a Value.
type Kind uint8

// The shapes of a Value.
const (
	// Absent is the shape of the zero Value: there is nothing.
	Absent Kind = iota
	// Null is a plain null or ~ inside a structured body.
	Null
	// Text is a scalar; every scalar is the text that stands in the file.
	Text
	// List is a sequence of values.
	List
	// Mapping is a sequence of keys with values; the order is kept.
	Mapping
)

// Value is a body, or a part of a structured one. Of Text, Items and Pairs
// only the one that Kind names is used.
type Value struct {
	Kind  Kind
	Text  string
	Items []Value
	Pairs []Pair
}

// Pair is a key of a Mapping with its value. Keys are distinct.
type Pair struct {
	Key   string
	Value Value
}

// TextValue returns a value that holds a text.
func TextValue(text string) Value { return Value{Kind: Text, Text: text} }

// Get returns the value of a key of a Mapping, Absent where there is none.
func (v Value) Get(key string) Value {
	for _, p := range v.Pairs {
		if p.Key == key {
			return p.Value
		}
	}
	return Value{}
}
