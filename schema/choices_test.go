package schema_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

func TestChoices(t *testing.T) {
	long := strings.Repeat("ä", 60)
	for text, want := range map[string]string{
		"yes,no": "yes|no", " yes , no, not yet ": "yes|no|not yet", "a," + long: "a|" + long, "1,2": "1|2", "8080,9090": "8080|9090",
		"1,2,3,4,5,6,7,8,9": "1|2|3|4|5|6|7|8|9",
		"":                  "", "yes": "", "yes,": "", "yes,YES": "", "a," + long + "x": "", "a,b\nc": "", "a,b\rc": "", "a,b\u2028c": "", "2,1": "",
		"a,b,c,d,e,f,g,h,i,j": "",
	} {
		choices, err := schema.ParseChoices(text)
		if want == "" {
			if _, ok := errors.AsType[*schema.ChoicesError](err); !ok {
				t.Errorf("%q: %v, want a ChoicesError", text, err)
			}
			continue
		}
		m := schema.Message{Marks: schema.Marks{Final: true}}
		if offered := m.Offer(choices); err != nil || offered != nil || strings.Join(m.Marks.Choices, "|") != want || !m.Marks.Final {
			t.Errorf("%q: %q (%v, %v); want %q", text, m.Marks.Choices, err, offered, want)
		}
	}
}

func TestChoose(t *testing.T) {
	request := schema.Message{Marks: schema.Marks{Choices: []string{"yes", "no", "not yet", "later"}}}
	for text, want := range map[string]string{
		"yes": "yes", "Y": "yes", "1": "yes", "4": "later", "no": "no", "NOT": "not yet", " later ": "later",
		"n": "", "": "", "0": "", "5": "", "perhaps": "", "yes!": "",
	} {
		answer := schema.Message{Body: schema.TextValue("because\n")}
		err := answer.Choose(&request, text)
		if want == "" {
			if _, ok := errors.AsType[*schema.NoChoiceError](err); !ok || answer.Marks.Choice != "" {
				t.Errorf("%q: %v, chose %q", text, err, answer.Marks.Choice)
			}
			continue
		}
		if err != nil || answer.Marks.Choice != want || answer.Body.Text != want+"\n\nbecause\n" || !slices.Contains(request.Marks.Choices, want) {
			t.Errorf("%q: %v, chose %q, body %q", text, err, answer.Marks.Choice, answer.Body.Text)
		}
	}
	var none schema.Message
	if err := new(schema.Message).Choose(&none, "yes"); err == nil || !strings.Contains(err.Error(), "offers no choices") {
		t.Errorf("choosing without choices: %v", err)
	}
}
