package validate

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"gopkg.in/yaml.v3"
)

// tooDeep is the message of ruleDepth.
var tooDeep = fmt.Sprintf("lists and mappings nest deeper than %d", schema.MaxDepth)

// parseTree parses the bytes of a file or the text of a body, with parsePlain if possible, which
// may use scratch. It also returns the text without a byte order mark.
func parseTree(data []byte, scratch []pair) (text string, root node, findings Diagnostics) {
	text, plain, problem := checkSource(data)
	if problem != nil {
		return "", node{}, Diagnostics{*problem}
	}
	if plain {
		if root, ok := parsePlain(text, scratch); ok {
			return text, root, nil
		}
	}
	root, findings = parseYAML(text)
	return text, root, findings
}

// parseYAML parses any text. If the text is not YAML or does not contain a document, it returns the
// zero node and one diagnostic.
func parseYAML(text string) (node, Diagnostics) {
	text, problem := neutralVersion(text)
	if problem != nil {
		return node{}, Diagnostics{*problem}
	}
	top, second, err := decodeDocuments(strings.NewReader(text))
	switch {
	case err != nil:
		return node{}, Diagnostics{syntaxProblem(text, err)}
	case top == nil || top.Kind == yaml.ScalarNode && top.Style == 0 && top.Anchor == "" && top.Value == "":
		return node{}, Diagnostics{treeProblem(1, 1, nil, ruleFileEmpty, "the file does not contain a message", "")}
	}
	var t treeBuilder
	root := t.build(top, 1)
	if second != nil {
		t.report(second, RuleDocuments, "keep one message a file",
			"a second YAML document begins here; a message file holds one")
	}
	return root, t.problems
}

// decodeDocuments returns the content of the first document, and the second document if there is
// one.
func decodeDocuments(r io.Reader) (top, second *yaml.Node, err error) {
	defer func() {
		// yaml.v3 panics in states that it considers impossible. Text that reaches one is bad YAML
		// and must not end the program.
		if p := recover(); p != nil {
			top, second, err = nil, nil, fmt.Errorf("yaml: the YAML parser gave up: %v", p)
		}
	}()
	decoder := yaml.NewDecoder(r)
	var first, next yaml.Node
	if err := decoder.Decode(&first); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil, nil
		}
		return nil, nil, err
	}
	switch err := decoder.Decode(&next); {
	case err == nil:
		second = &next
	case !errors.Is(err, io.EOF):
		return nil, nil, err
	}
	if len(first.Content) == 0 {
		return nil, second, nil
	}
	return first.Content[0], second, nil
}

// neutralVersion replaces the version of a %YAML directive by 1.1, the only one that yaml.v3
// accepts, without moving any text.
func neutralVersion(text string) (string, *Diagnostic) {
	offset := 0
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, "%YAML ")
		if !ok && strings.TrimSpace(line) != "" && line[0] != '#' && line[0] != '%' {
			break
		}
		if ok {
			value = strings.TrimLeft(value, " \t")
			start := offset + len(line) - len(value)
			version := value[:len(value)-len(strings.TrimLeft(value, ".0123456789"))]
			minor, ok := strings.CutPrefix(version, "1.")
			if !ok || minor == "" {
				line, column := position(text[:start])
				problem := treeProblem(line, column, nil, ruleVersion,
					"the file asks for YAML "+quote(version), "leave the %YAML line out")
				return text, &problem
			}
			if isDigits(minor) {
				text = text[:start] + "1.1" + strings.Repeat(" ", len(minor)-1) + text[start+len(version):]
			}
			break
		}
		offset += len(line)
	}
	return text, nil
}

// A treeBuilder converts the nodes of yaml.v3 to ours and reports what messages must not use.
type treeBuilder struct {
	at       path
	problems Diagnostics
}

func treeProblem(line, column int, at path, rule Rule, message, fix string) Diagnostic {
	if len(at) > 0 {
		message = at.String() + ": " + message
	}
	return Diagnostic{
		Line: line, Column: column, Field: at.String(), Rule: rule, Severity: rule.severity(), Message: message, Fix: fix,
	}
}

func (t *treeBuilder) report(y *yaml.Node, rule Rule, fix, format string, args ...any) {
	if len(t.problems) <= maxDiagnostics {
		message := fmt.Sprintf(format, args...)
		t.problems = append(t.problems, treeProblem(y.Line, y.Column, t.at, rule, message, fix))
	}
}

func (t *treeBuilder) build(y *yaml.Node, depth int) node {
	n := node{line: int32(y.Line), column: int32(y.Column)}
	t.checkProperties(y)
	switch y.Kind {
	case yaml.AliasNode:
		t.report(y, ruleAlias, "write the value out", "the alias *%s refers to another value", visible.Line(y.Value))
		n.kind = schema.Null
		return n
	case yaml.ScalarNode:
		n.kind, n.text = schema.Text, y.Value
		if y.Tag == "!!null" && isNull(y.Value) {
			n.kind, n.text = schema.Null, ""
		}
		n.literal = y.Style&yaml.LiteralStyle != 0 && y.Style&yaml.TaggedStyle == 0 && y.Anchor == ""
		return n
	}
	if depth > schema.MaxDepth {
		t.report(y, ruleDepth, "", "%s", tooDeep)
		n.kind = schema.Null
		return n
	}
	if y.Kind == yaml.SequenceNode {
		n.kind = schema.List
		n.items = make([]node, len(y.Content))
		for i, item := range y.Content {
			t.at = append(t.at, i)
			n.items[i] = t.build(item, depth+1)
			t.at = t.at[:len(t.at)-1]
		}
		return n
	}
	n.kind = schema.Mapping
	t.mapping(&n, y, depth)
	return n
}

// mapping sets the pairs of a mapping. If a key is repeated, the first one counts.
func (t *treeBuilder) mapping(n *node, y *yaml.Node, depth int) {
	n.pairs = make([]pair, 0, len(y.Content)/2)
	lines := make(map[string]int, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		switch {
		case key.Kind == yaml.AliasNode:
			t.build(key, depth+1)
			continue
		case key.Kind != yaml.ScalarNode:
			t.report(key, ruleComplexKey, "", "a list or mapping cannot be a key")
			continue
		case key.Value == "<<" && key.Style == 0:
			t.report(key, ruleMergeKey, "write the fields out", "the merge key << is not allowed")
			continue
		}
		t.at = append(t.at, key.Value)
		t.checkProperties(key)
		if first, ok := lines[key.Value]; ok {
			t.report(key, RuleDuplicateKey, "keep one of the two",
				"the key is repeated; it is first set on line %d", first)
			t.build(value, depth+1)
		} else {
			lines[key.Value] = key.Line
			p := pair{key: key.Value, line: int32(key.Line), column: int32(key.Column)}
			p.value = t.build(value, depth+1)
			n.pairs = append(n.pairs, p)
		}
		t.at = t.at[:len(t.at)-1]
	}
}

// checkProperties reports anchors, and tags outside the core schema.
func (t *treeBuilder) checkProperties(y *yaml.Node) {
	if y.Anchor != "" {
		t.report(y, ruleAnchor, "leave it out", "the anchor &%s is not allowed", visible.Line(y.Anchor))
	}
	if y.Style&yaml.TaggedStyle == 0 {
		return
	}
	switch y.Tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!seq", "!!map":
	default:
		t.report(y, ruleTag, "remove it; every scalar is read as text",
			"the tag %s is not one of YAML's core schema", quote(y.Tag))
	}
}
