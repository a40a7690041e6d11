package main

import (
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

// TestDecideWords finds what a word at the prompt of decide does: what a person means as a choice never closes the message
// without an answer, and keys mean the same for each message.
func TestDecideWords(t *testing.T) {
	for _, test := range []struct {
		of      schema.Type
		choices string
		typed   string
		want    string // the key, or what the refusal says
	}{
		{schema.Question, "a,b", "a", "1"},
		{schema.Question, "a,b", "B", "2"},
		{schema.Question, "t,e,s,q", "q", "4"},
		{schema.Question, "approve,reject", "a", `"a" may be "approve" or "acknowledge without an answer"`},
		{schema.Question, "approve,reject", "ap", "1"},
		{schema.Question, "approve,reject", "ack", "a"},
		{schema.Question, "approve,reject", "2", "2"},
		{schema.Question, "approve,reject", "3", "choose: number or name, t text"},
		{schema.Question, "quit,stay", "quit", "1"},
		{schema.Question, "sqlite,skip it", "s", "s"},
		{schema.Question, "sqlite,bolt", "b", "b"},
		{schema.Question, "sqlite,bolt", "bo", "2"},
		{schema.Question, "8080,9090", "9", "2"},
		{schema.Question, "yes,no", "b", "b"},
		{schema.Question, "yes,no,later", "d", "d"},
		{schema.Question, "", "d", "d"},
		{schema.Question, "", "ask", "b"},
		{schema.Question, "", "a", "a"},
		{schema.Question, "", "1", "choose: t text"},
		{schema.TaskRequest, "", "1", "1"},
		{schema.TaskRequest, "", "a", `"Accept"`},
		{schema.TaskRequest, "", "done", "t"},
		{schema.ReviewRequest, "", "changes", "t"},
		{schema.Notification, "", "d", "choose: t text, e editor, a acknowledge"},
	} {
		m := &schema.Message{Type: test.of}
		if test.choices != "" {
			if err := m.Offer(strings.Split(test.choices, ",")); err != nil {
				t.Fatal(err)
			}
		}
		found, err := wordsFor(m).find(test.typed)
		if err != nil && !strings.Contains(err.Error(), test.want) || err == nil && found.key != test.want {
			t.Errorf("%s with choices %q, typed %q: %q, %v; want %q", test.of, test.choices, test.typed, found.key, err, test.want)
		}
	}
}
