package web

import (
	"html/template"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// maxDepth is how many levels of a structured body are shown as tables. Deeper ones are shown as YAML.
const maxDepth = 6

// typed are the types whose text bodies have fields.
var typed = []schema.Type{schema.Handoff, schema.HandoffComplete, schema.ReviewFeedback, schema.FollowUp}

// bodyHTML returns the body of a message as HTML: a text as Markdown, one with fields as tables.
func bodyHTML(m *schema.Message) template.HTML {
	fields, ok := m.Body, m.Body.Kind == schema.Mapping
	if slices.Contains(typed, m.Type) {
		fields, ok, _ = validate.BodyFields(m)
	}
	if !ok {
		return textHTML(m.Body.Text)
	}
	var out strings.Builder
	writeValue(&out, fields, 0)
	return template.HTML(out.String())
}

// textHTML returns a text as Markdown, or as it is if it is long. Characters without a form of their own are written
// out, such as those that reverse the direction of writing.
func textHTML(text string) template.HTML {
	text = visible.Lines(strings.ReplaceAll(text, "\r\n", "\n"))
	if len(text) <= maxMarkdown {
		if converted, err := markdownHTML(text); err == nil {
			return converted
		}
	}
	return template.HTML(`<pre>` + template.HTMLEscapeString(text) + "</pre>")
}

// writeValue writes a part of a structured body.
func writeValue(out *strings.Builder, v schema.Value, depth int) {
	switch {
	case v.Kind == schema.Text && strings.Contains(strings.TrimSpace(v.Text), "\n"):
		out.WriteString(string(textHTML(v.Text)))
	case v.Kind == schema.Text:
		out.WriteString(template.HTMLEscapeString(visible.Line(v.Text)))
	case v.Kind == schema.Null:
		out.WriteString(`<span class="faint">null</span>`)
	case depth >= maxDepth:
		yaml := schema.EncodeMapping(schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{{Key: "value", Value: v}}})
		out.WriteString(`<pre>` + template.HTMLEscapeString(visible.Lines(string(yaml))) + "</pre>")
	case v.Kind == schema.List:
		out.WriteString("<ul>")
		for _, item := range v.Items {
			out.WriteString("<li>")
			writeValue(out, item, depth+1)
			out.WriteString("</li>")
		}
		out.WriteString("</ul>")
	case v.Kind == schema.Mapping:
		out.WriteString(`<table class="fields"><tbody>`)
		for _, pair := range v.Pairs {
			out.WriteString(`<tr><th scope="row">` + template.HTMLEscapeString(visible.Line(pair.Key)) + "</th><td>")
			writeValue(out, pair.Value, depth+1)
			out.WriteString("</td></tr>")
		}
		out.WriteString("</tbody></table>")
	}
}

// excerpt returns the beginning of a text on one line.
func excerpt(text string) string {
	const most = 240
	text = strings.Join(strings.Fields(visible.CutBytes(text, 4*most)), " ")
	return visible.Line(visible.Short(text, most+1))
}
