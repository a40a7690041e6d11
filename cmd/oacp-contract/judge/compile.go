package judge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/oacp-go/oacp/contract"
)

// base is the address of the folder of the schemas. Nothing is ever loaded from it.
const (
	parent = "oacp://workspace"
	base   = parent + "/" + contract.Folder + "/"
)

// A compiled set of schemas judges bodies.
type compiled struct {
	schemas map[string]*jsonschema.Schema
	// documents are the decoded files, by name.
	documents map[string]any
	// names are the names of the files, by address without a fragment.
	names map[string]string
	// loaded is the file that the compiler asked for last. What is wrong with a file shows right
	// after it is loaded.
	loaded string
}

// compile compiles the schemas with the names, each on its own. It sees only the files that it is
// given.
func compile(files map[string]string, names []string) (*compiled, contract.Ready) {
	c := &compiled{
		schemas: make(map[string]*jsonschema.Schema), documents: make(map[string]any), names: make(map[string]string),
	}
	for name, text := range files {
		var document any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		_ = decoder.Decode(&document) // the compiler reports what is not JSON
		c.documents[name] = document
		c.names[base+url.PathEscape(name)] = name
	}
	c.addIDs()
	ready := contract.Ready{Version: contract.Version, Problems: []contract.Problem{}}
	for _, name := range names {
		schema, err := c.compileOne(files, base+url.PathEscape(name+contract.Suffix))
		if err != nil {
			ready.Problems = append(ready.Problems, c.problem(name, err))
			continue
		}
		c.schemas[name] = schema
		if slices.Contains(typesOf(applied([]*jsonschema.Schema{schema})), "string") {
			ready.Texts = append(ready.Texts, name)
		}
	}
	return c, ready
}

// addIDs makes files known under their own $id, and under the names of their neighbours relative to
// it: schemas with an $id usually refer to others that way.
func (c *compiled) addIDs() {
	var parents []*url.URL
	for name, document := range c.documents {
		fields, _ := document.(map[string]any)
		for _, key := range []string{"$id", "id"} {
			id, _ := fields[key].(string)
			u, err := url.Parse(id)
			if err != nil || !u.IsAbs() {
				continue
			}
			u.Fragment = ""
			if known := u.String(); c.names[known] == "" {
				c.names[known] = name
			}
			parents = append(parents, u)
		}
	}
	for name := range c.documents {
		for _, parent := range parents {
			beside := parent.ResolveReference(&url.URL{Path: name}).String()
			if c.names[beside] == "" {
				c.names[beside] = name
			}
		}
	}
}

// A numberError says that the library could not compute with a number in a schema.
type numberError struct{ at []string }

func (e *numberError) Error() string { return "the number is too large or too long" }

// numberIn returns the way to a number that is too large, or nil.
func numberIn(value any) []string {
	switch v := value.(type) {
	case json.Number:
		if !isNumber(v.String()) {
			return []string{}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if at := numberIn(v[key]); at != nil {
				return append([]string{key}, at...)
			}
		}
	case []any:
		for i, item := range v {
			if at := numberIn(item); at != nil {
				return append([]string{strconv.Itoa(i)}, at...)
			}
		}
	}
	return nil
}

// An outsideError says that a schema refers to something that is not a file beside it.
type outsideError struct{ address string }

func (e *outsideError) Error() string {
	address := strings.TrimPrefix(strings.TrimPrefix(e.address, base), parent)
	return fmt.Sprintf("it refers to %s, which is not a file in the folder %s", shorten(address), contract.Folder)
}

func (c *compiled) compileOne(files map[string]string, address string) (schema *jsonschema.Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it cannot be compiled: %v", p)
		}
	}()
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	compiler.AssertFormat = true
	compiler.LoadURL = func(address string) (io.ReadCloser, error) {
		name, ok := c.names[address]
		if !ok {
			return nil, &outsideError{address}
		}
		c.loaded = name
		if at := numberIn(c.documents[name]); at != nil {
			return nil, &numberError{at}
		}
		return io.NopCloser(strings.NewReader(files[name])), nil
	}
	return compiler.Compile(address)
}

// problem describes why a schema does not compile.
func (c *compiled) problem(name string, err error) contract.Problem {
	p := contract.Problem{Name: name, File: name + contract.Suffix, At: []string{}}
	if outside, ok := errors.AsType[*outsideError](err); ok {
		p.Reference, p.Message = outside.address, outside.Error()
		return p
	}
	if number, ok := errors.AsType[*numberError](err); ok {
		p.File, p.At, p.Message = c.loaded, number.at, number.Error()
		return p
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		if inner, ok := errors.AsType[*jsonschema.SchemaError](err); ok && inner.Err != nil {
			err = inner.Err
		}
		text := strings.TrimPrefix(err.Error(), "jsonschema: ")
		if address, ok := strings.CutSuffix(text, " not found"); ok {
			p.Reference, text = address, "there is no "+address
		}
		p.Message = shorten(strings.ReplaceAll(text, base, ""))
		return p
	}
	// The schema does not fit the schema of its draft.
	leaf := leaves(invalid)[0]
	p.File, p.At = c.loaded, steps(leaf.InstanceLocation)
	p.Message = "this is no JSON Schema: " + shorten(leaf.Message)
	return p
}

// fileOf returns the file and the value in it that an address in a text leads to, if it does.
func (c *compiled) fileOf(address string) (file string, at []string) {
	address, fragment, _ := strings.Cut(address, "#")
	return c.names[address], steps(fragment)
}

// steps splits a JSON pointer in the form of the library, whose parts are escaped as parts of an
// address.
func steps(pointer string) []string {
	at := []string{}
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "#"), "/")[1:] {
		if plain, err := url.PathUnescape(step); err == nil {
			step = plain
		}
		at = append(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return at
}

// leaves returns the errors that have no further cause. Of the forms that anyOf and oneOf offer, it
// takes the one that fits best.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	keyword := keywordOf(e)
	oneOfSeveral := keyword == "anyOf" || keyword == "oneOf"
	var all []*jsonschema.ValidationError
	for i, cause := range e.Causes {
		found := leaves(cause)
		switch {
		case !oneOfSeveral:
			all = append(all, found...)
		case i == 0 || misfit(found) < misfit(all):
			all = found
		}
	}
	return all
}

// misfit says how far a body is from one of several forms. Forms are usually told apart by a constant
// or by their kind.
func misfit(leaves []*jsonschema.ValidationError) (sum int) {
	for _, leaf := range leaves {
		switch keywordOf(leaf) {
		case "const", "enum", "type":
			sum += 10
		default:
			sum++
		}
	}
	return sum
}

// keywordOf returns the keyword that failed.
func keywordOf(e *jsonschema.ValidationError) string {
	return e.AbsoluteKeywordLocation[strings.LastIndexByte(e.AbsoluteKeywordLocation, '/')+1:]
}

// longest bounds the texts that are passed on, in bytes.
const longest = 400

func shorten(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}
