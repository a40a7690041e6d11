package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
)

// A normalizer replaces the parts of outputs that differ from run to run, unless they are in the inputs.
type normalizer struct{ home, inputs string }

var (
	messagePath    = regexp.MustCompile(`/(inbox|outbox)/[^/]*\.yaml( \d+)?$`)
	typeNames      = strings.ReplaceAll(spelling.Join(schema.Types()), ", ", "|")
	messageName    = regexp.MustCompile(`\b\d{8}(?:T\d{4}Z|\d{6})_([A-Za-z0-9.-]+)_(` + typeNames + `)(?:_[a-z0-9]{4,16})?((?:_[\w.-]+)?\.yaml)`)
	messageID      = regexp.MustCompile(`\bmsg-\d{8}(?:T\d{4}Z|\d{6})-([\w.-]+)-[a-z0-9]{4,16}\b`)
	conversationID = regexp.MustCompile(`\bconv-\d{8}-([\w.-]+)-\d+\b`)
	timestamp      = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+\+00:00|Z)`)
)

func (n normalizer) string(text string) string {
	text = strings.ReplaceAll(text, n.home, "HOME")
	for _, change := range []struct {
		pattern *regexp.Regexp
		instead string
	}{
		{messageName, "TIME_${1}_${2}${3}"}, {messageID, "msg-TIME-$1-RAND"}, {conversationID, "conv-DATE-$1-SEQ"}, {timestamp, "TIME"},
	} {
		text = change.pattern.ReplaceAllStringFunc(text, func(found string) string {
			if strings.Contains(n.inputs, found) {
				return found
			}
			return change.pattern.ReplaceAllString(found, change.instead)
		})
	}
	return text
}

// text returns the lines of an output that scripts may read.
func (n normalizer) text(output string) []string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSuffix(line, "\n"); scriptLine.MatchString(line) {
			lines = append(lines, n.string(line))
		}
	}
	slices.Sort(lines)
	return lines
}

// scriptLine matches the lines of text that scripts may read.
var scriptLine = regexp.MustCompile(`^(OK: |  (inbox|outbox): |NEW_MESSAGE |MESSAGE_ARCHIVED )`)

// value normalizes a value of JSON or YAML. Texts for people only have to be there.
func (n normalizer) value(key string, value any) any {
	switch value := value.(type) {
	case string:
		switch key {
		case "error", "load_error", "warnings", "message", "fix_hint", "reason":
			return "TEXT"
		case "age":
			return "AGE"
		case "yaml":
			return n.document([]byte(value))
		}
		return n.string(value)
	case []any:
		list := make([]any, len(value))
		for i := range value {
			list[i] = n.value(key, value[i])
		}
		sortObjects(list)
		return list
	case map[string]any:
		object := make(map[string]any, len(value))
		for key, value := range value {
			object[n.string(key)] = n.value(key, value)
		}
		return object
	}
	return value
}

// sortObjects sorts the objects of a list: we print messages in processing order, the reference by file
// name.
func sortObjects(list []any) {
	slices.SortStableFunc(list, func(a, b any) int {
		x, isObject := a.(map[string]any)
		y, other := b.(map[string]any)
		if !isObject || !other {
			return 0
		}
		key := func(object map[string]any) string {
			return fmt.Sprint(object["event"], object["project"], object["agent"], object["subject"], object["path"])
		}
		return strings.Compare(key(x), key(y))
	})
}

// document returns the fields of a message. A message that expires says how long after it was made.
func (n normalizer) document(data []byte) any {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil || len(root.Content) == 0 {
		return "no YAML"
	}
	raw, ok := textOf(root.Content[0]).(map[string]any)
	if !ok {
		return "no mapping"
	}
	fields := n.value("", raw)
	created, err := time.Parse(time.RFC3339, fmt.Sprint(raw["created_at_utc"]))
	expires, expiresErr := time.Parse(time.RFC3339, fmt.Sprint(raw["expires_at"]))
	if err == nil && expiresErr == nil && !strings.Contains(n.inputs, fmt.Sprint(raw["expires_at"])) {
		fields.(map[string]any)["expires_at"] = "TIME+" + expires.Sub(created).Round(time.Minute).String()
	}
	return fields
}

// textOf returns a node with every scalar as text. The last line of a block may end or not.
func textOf(node *yaml.Node) any {
	switch node.Kind {
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, item := range node.Content {
			list[i] = textOf(item)
		}
		return list
	case yaml.MappingNode:
		object := make(map[string]any)
		for i := 0; i+1 < len(node.Content); i += 2 {
			object[node.Content[i].Value] = textOf(node.Content[i+1])
		}
		return object
	}
	return strings.TrimRight(node.Value, "\n")
}

// files returns what is in the home.
func (n normalizer) files(t *testing.T) map[string]any {
	t.Helper()
	found := make(map[string][]any)
	err := filepath.WalkDir(n.home, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(n.home, path)
		if err != nil || entry.IsDir() {
			return err
		}
		var content any
		if messagePath.MatchString(path) {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = n.document(data)
		}
		name = n.string(filepath.ToSlash(name))
		found[name] = append(found[name], content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after := make(map[string]any)
	for name, contents := range found { // several only if their names differ by time or random part
		slices.SortFunc(contents, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		for i, content := range contents {
			after[strings.TrimSuffix(fmt.Sprintf("%s %d", name, i+1), " 1")] = content
		}
	}
	return after
}
