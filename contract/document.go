package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// A place is a value or a key in a JSON text.
type place struct {
	// at are the keys and indexes that lead to the value.
	at []string
	// offset is the number of bytes before it.
	offset int
	// key is set for the key that at ends with; token is then the key.
	key   bool
	token json.Token
}

// A textProblem is what is wrong with a JSON text, at an offset.
type textProblem struct {
	offset  int
	message string
}

func (p *textProblem) Error() string { return p.message }

// walkText calls visit for each key and value of a JSON text, in order, until visit returns false.
// It returns a *textProblem for text that is not JSON, nests too deep or repeats a key. The slice at
// is only valid during the call.
func walkText(text string, visit func(place) bool) error {
	w := textWalker{text: text, decoder: json.NewDecoder(strings.NewReader(text)), visit: visit}
	w.decoder.UseNumber()
	if err := w.value(w.next()); !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

var errEnough = errors.New("nothing more is asked")

type textWalker struct {
	text    string
	decoder *json.Decoder
	at      []string
	visit   func(place) bool
}

// next returns the offset of the next token.
func (w *textWalker) next() int {
	offset := int(w.decoder.InputOffset())
	rest := strings.TrimLeft(w.text[offset:], " \t\r\n,:")
	return len(w.text) - len(rest)
}

func (w *textWalker) token() (json.Token, error) {
	token, err := w.decoder.Token()
	if err != nil {
		return nil, &textProblem{w.next(), err.Error()}
	}
	return token, nil
}

func (w *textWalker) value(offset int) error {
	if len(w.at) >= MaxDepth {
		return &textProblem{offset, fmt.Sprintf("values nest deeper than %d", MaxDepth)}
	}
	token, err := w.token()
	if err != nil {
		return err
	}
	if !w.visit(place{at: w.at, offset: offset, token: token}) {
		return errEnough
	}
	switch token {
	case json.Delim('{'):
		err = w.object()
	case json.Delim('['):
		err = w.array()
	default:
		return nil
	}
	if err != nil {
		return err
	}
	_, err = w.token() // the bracket that closes it
	return err
}

func (w *textWalker) object() error {
	seen := make(map[string]bool)
	for w.decoder.More() {
		offset := w.next()
		token, err := w.token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // the decoder accepts no other key
		if seen[key] {
			return &textProblem{offset, fmt.Sprintf("the key %.60q is repeated", key)}
		}
		seen[key] = true
		if err := w.inside(key, func() error {
			if !w.visit(place{at: w.at, offset: offset, key: true, token: key}) {
				return errEnough
			}
			return w.value(w.next())
		}); err != nil {
			return err
		}
	}
	return nil
}

func (w *textWalker) array() error {
	for i := 0; w.decoder.More(); i++ {
		if err := w.inside(fmt.Sprint(i), func() error { return w.value(w.next()) }); err != nil {
			return err
		}
	}
	return nil
}

func (w *textWalker) inside(step string, do func() error) error {
	w.at = append(w.at, step)
	err := do()
	w.at = w.at[:len(w.at)-1]
	return err
}

// check returns what is wrong with a JSON text, or nil.
func check(text string) *textProblem {
	if !utf8.ValidString(text) {
		offset := 0
		for {
			r, size := utf8.DecodeRuneInString(text[offset:])
			if r == utf8.RuneError && size <= 1 {
				return &textProblem{offset, "the text is not UTF-8"}
			}
			offset += size
		}
	}
	var whole json.RawMessage
	err := json.Unmarshal([]byte(text), &whole)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at := max(0, int(syntax.Offset)-1)
		if int(syntax.Offset) == len(text) && strings.Contains(syntax.Error(), "end of JSON") {
			at = len(text)
		}
		return &textProblem{at, "this is not JSON: " + syntax.Error()}
	}
	err = walkText(text, func(place) bool { return true })
	problem, _ := errors.AsType[*textProblem](err)
	return problem
}

// find returns the offset of the value that the keys and indexes lead to or, where there is no such
// value, of the last one on the way.
func find(text string, at []string) int {
	found, depth := 0, -1
	// A text that is not JSON is walked as far as it is.
	_ = walkText(text, func(p place) bool {
		if !p.key && len(p.at) > depth && len(p.at) <= len(at) && slices.Equal(p.at, at[:len(p.at)]) {
			found, depth = p.offset, len(p.at)
		}
		return depth < len(at)
	})
	return found
}

// position returns the line and column of an offset, counted from 1, in characters.
func position(text string, offset int) (line, column int) {
	before := text[:min(offset, len(text))]
	last := strings.LastIndexByte(before, '\n')
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[last+1:]) + 1
}

// A reference is the value of $ref, $dynamicRef, $recursiveRef or $schema in a schema.
type reference struct {
	text   string
	offset int
}

var referring = []string{"$ref", "$dynamicRef", "$recursiveRef", "$schema"}

// references returns the references in the text of a schema.
func references(text string) (found []reference) {
	_ = walkText(text, func(p place) bool {
		target, ok := p.token.(string)
		if ok && !p.key && len(p.at) > 0 && slices.Contains(referring, p.at[len(p.at)-1]) {
			found = append(found, reference{target, p.offset})
		}
		return true
	})
	return found
}

// file returns the file that a reference can mean, if it means one: the last element of its path.
// Whether it does mean it is up to oacp-contract, which sees no other files.
func (r reference) file() (string, bool) {
	u, err := url.Parse(r.text)
	if err != nil || u.Path == "" || strings.HasSuffix(u.Path, "/") {
		return "", false
	}
	name := path.Base(u.Path)
	return name, name != ".." && name != "." && !strings.ContainsAny(name, `/\`)
}

// means reports whether the reference may be what led to an address, in which it stands without the
// steps at its beginning.
func (r reference) means(address string) bool {
	target := r.text
	if !strings.Contains(address, "#") {
		target, _, _ = strings.Cut(target, "#")
	}
	target = strings.TrimLeft(target, "./")
	return target != "" && strings.HasSuffix(address, target)
}
