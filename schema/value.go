package schema

// Kind is the shape of a Value.
type Kind uint8

// The shapes of a Value.
const (
	// Absent is the shape of the zero Value: there is nothing.
	Absent Kind = iota
	// Null is a plain null or ~ inside a structured body.
	Null
	// Text is a scalar, as it is written in the file.
	Text
	// List is a sequence of values.
	List
	// Mapping is an ordered sequence of keys with values.
	Mapping
)

// Value is a body, or part of a structured one. Kind says which of Text, Items and Pairs is used.
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

// TextValue returns a value of kind Text.
func TextValue(text string) Value { return Value{Kind: Text, Text: text} }

// Get returns the value of a key of a Mapping, Absent if there is none.
func (v Value) Get(key string) Value {
	for _, p := range v.Pairs {
		if p.Key == key {
			return p.Value
		}
	}
	return Value{}
}
