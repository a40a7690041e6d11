package judge

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/oacp-go/oacp/contract"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
)

// base is the address that stands for the folder of the schemas. No such address is ever opened.
const (
	parent = "oacp://workspace"
	base   = parent + "/" + contract.Folder + "/"
)

// A compiled set of schemas judges bodies.
type compiled struct {
	schemas map[string]*jsonschema.Schema
	// files are the texts of the files, by name.
	files map[string]string
	// roots are the values of the JSON files, and wrong the errors of the files that are not JSON.
	roots map[string]any
	wrong map[string]error
	// names are the names of the files, by address without a fragment.
	names map[string]string
	// loaded is the file that the compiler asked for last. It reports an error in a file right after
	// loading it.
	loaded string
}

// compile compiles the schemas with the names, each on its own. It sees only the files that it is
// given.
func compile(files map[string]string, names []string) (*compiled, contract.Ready) {
	c := &compiled{
		files: files, schemas: make(map[string]*jsonschema.Schema), names: make(map[string]string),
		roots: make(map[string]any), wrong: make(map[string]error),
	}
	for name, text := range files {
		if root, err := parse(text); err != nil {
			c.wrong[name] = err
		} else {
			c.roots[name] = root
		}
		c.names[base+url.PathEscape(name)] = name
	}
	c.addIDs()
	ready := contract.Ready{Version: contract.Version, Problems: []contract.Problem{}}
	for _, name := range names {
		s, err := c.compileOne(base + url.PathEscape(name+contract.Suffix))
		if err != nil {
			ready.Problems = append(ready.Problems, c.problem(name, err))
			continue
		}
		c.schemas[name] = s
	}
	return c, ready
}

// A textError says what is wrong with the text of a file.
type textError struct{ error }

// parse decodes a JSON text. It returns a textError for text that is not JSON, nests too deep, repeats
// a key, or holds a number that the schema library could not compute with.
func parse(text string) (value any, err error) {
	var strict schema.Value // decoding it makes the first three checks
	err = json.Unmarshal([]byte(text), &strict)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := strings.Count(text[:min(int(syntax.Offset), len(text))], "\n") + 1
		err = fmt.Errorf("this is not JSON: %w (line %d)", err, line)
	}
	if err == nil {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		err = decoder.Decode(&value)
	}
	if err == nil {
		err = checkNumbers(value)
	}
	if err != nil {
		return nil, textError{err}
	}
	return value, nil
}

func checkNumbers(value any) error {
	switch v := value.(type) {
	case json.Number:
		if !isNumber(v.String()) {
			return fmt.Errorf("the number %.20s… is too large or too long", v)
		}
	case []any:
		for _, item := range v {
			if err := checkNumbers(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, member := range v {
			if err := checkNumbers(member); err != nil {
				return err
			}
		}
	}
	return nil
}

// addIDs makes files known under their own $id, and under the names of their neighbours relative to
// it: schemas with an $id usually refer to others that way.
func (c *compiled) addIDs() {
	var parents []*url.URL
	for name, root := range c.roots {
		fields, _ := root.(map[string]any)
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
	for name := range c.files {
		for _, parent := range parents {
			beside := parent.ResolveReference(&url.URL{Path: name}).String()
			if c.names[beside] == "" {
				c.names[beside] = name
			}
		}
	}
}

// An outsideError reports that a schema refers to something outside the files of the program.
type outsideError struct{ address string }

func (e *outsideError) Error() string {
	address := strings.TrimPrefix(strings.TrimPrefix(e.address, base), parent)
	return fmt.Sprintf("it refers to %s, which is not a readable .json file in the folder %s", shorten(address), contract.Folder)
}

func (c *compiled) compileOne(address string) (_ *jsonschema.Schema, err error) {
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
		return io.NopCloser(strings.NewReader(c.files[name])), c.wrong[name]
	}
	return compiler.Compile(address)
}

// problem describes why a schema does not compile.
func (c *compiled) problem(name string, err error) contract.Problem {
	p := contract.Problem{Name: name, File: name + contract.Suffix}
	if outside, ok := errors.AsType[*outsideError](err); ok {
		p.Message = outside.Error()
	} else if text, ok := errors.AsType[textError](err); ok {
		p.File, p.Message = c.loaded, shorten(text.Error())
	} else if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		leaf := leaves(invalid)[0]
		p.File = c.loaded
		p.Message = shorten(fmt.Sprintf("this is not a JSON Schema: %s: %s", cmp.Or(leaf.InstanceLocation, "/"), leaf.Message))
	} else {
		if inner, ok := errors.AsType[*jsonschema.SchemaError](err); ok && inner.Err != nil {
			err = inner.Err
		}
		message := strings.TrimPrefix(err.Error(), "jsonschema: ")
		if address, ok := strings.CutSuffix(message, " not found"); ok {
			message = "there is no " + address
		}
		p.Message = shorten(strings.ReplaceAll(message, base, ""))
	}
	return p
}

// fileOf returns the file and the place in it that an address leads to. The file is empty if it is not
// one of ours.
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

// leaves returns the errors without further causes. Of the forms that anyOf and oneOf offer, it takes
// the one that fits best.
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

// misfit measures how far a body is from one of several forms. A wrong constant or type counts most,
// because forms usually differ in those.
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

// longest bounds each text of an answer, in bytes.
const longest = 400

func shorten(text string) string { return visible.ShortBytes(text, longest) }
