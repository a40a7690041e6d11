package web

import (
	"bytes"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	goldmarktext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxMarkdown is the size of the largest text that is shown as Markdown, in bytes. Others are shown as they are.
const maxMarkdown = 64 << 10

// markdown converts Markdown to HTML. It has no parser of HTML, so HTML in a text is shown as text.
var markdown = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(without(parser.DefaultBlockParsers(), parser.NewHTMLBlockParser())...),
		parser.WithInlineParsers(without(parser.DefaultInlineParsers(), parser.NewRawHTMLParser())...),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
		parser.WithASTTransformers(util.Prioritized(safeTree{}, 1000)),
	)),
	goldmark.WithExtensions(extension.Strikethrough, extension.Linkify,
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
	goldmark.WithRendererOptions(html.WithHardWraps()),
)

func without(parsers []util.PrioritizedValue, one any) []util.PrioritizedValue {
	return slices.DeleteFunc(parsers, func(v util.PrioritizedValue) bool { return v.Value == one })
}

// markdownHTML returns a text as HTML.
func markdownHTML(text string) (template.HTML, error) {
	var out bytes.Buffer
	err := markdown.Convert([]byte(text), &out)
	return template.HTML(out.String()), err
}

// A safeTree removes from a document what could load something or lead to an unexpected place, and fits it into a page.
type safeTree struct{}

// Transform implements parser.ASTTransformer.
func (safeTree) Transform(document *ast.Document, in goldmarktext.Reader, _ parser.Context) {
	source := in.Source()
	var changes []func()                                                             // made after the walk, which they would confuse
	level := 2                                                                       // the page uses two levels of headings
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it returns no error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			level = min(n.Level+2, level+1, 6) // no level is skipped
			n.Level = level
		case *extensionast.Table:
			n.SetAttributeString("tabindex", "0") // the keyboard scrolls a wide one
		case *ast.Image:
			changes = append(changes, func() { replaceByText(n, "[image: ", "] ("+string(n.Destination)+")") })
		case *ast.Link:
			if isSafeURL(n.Destination) {
				n.SetAttributeString("rel", "noopener noreferrer nofollow")
			} else {
				changes = append(changes, func() { replaceByText(n, "", " ("+string(n.Destination)+")") })
			}
		case *ast.AutoLink:
			if n.AutoLinkType == ast.AutoLinkEmail || isSafeURL(n.URL(source)) {
				n.SetAttributeString("rel", "noopener noreferrer nofollow")
			} else {
				changes = append(changes, func() { replaceByText(n, string(n.Label(source)), "") })
			}
		}
		return ast.WalkContinue, nil
	})
	for _, change := range changes {
		change()
	}
}

// replaceByText replaces a node by what is in it, between two texts.
func replaceByText(n ast.Node, before, after string) {
	parent := n.Parent()
	insert := func(text string) {
		if text != "" {
			node := ast.NewString([]byte(text))
			node.SetRaw(true) // escaped, but not read as Markdown
			parent.InsertBefore(parent, n, node)
		}
	}
	insert(before)
	for child := n.FirstChild(); child != nil; child = n.FirstChild() {
		parent.InsertBefore(parent, n, child)
	}
	insert(after)
	parent.RemoveChild(parent, n)
}

// isSafeURL reports whether a link to an address leads to where it says.
func isSafeURL(destination []byte) bool {
	parsed, err := url.Parse(string(destination))
	if err != nil {
		return false
	}
	switch strings.ToLower(parsed.Scheme) {
	case "http", "https":
		return parsed.Host != ""
	}
	return strings.EqualFold(parsed.Scheme, "mailto")
}
