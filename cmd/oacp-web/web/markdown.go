package web

import (
	"bytes"
	"html/template"
	"net/url"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	goldmarktext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxMarkdown is the size of the largest text that is shown as Markdown, in bytes. Others are shown as they are.
const maxMarkdown = 64 << 10

// markdown converts Markdown to HTML. It shows HTML in the text as text, and an image as its description.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Strikethrough, extension.Linkify,
		extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
	goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(safeRenderer{}, 0))),
)

// markdownHTML returns a text as HTML.
func markdownHTML(text string) (template.HTML, error) {
	source := []byte(text)
	tree := markdown.Parser().Parse(goldmarktext.NewReader(source))
	lowerHeadings(tree)
	var out bytes.Buffer
	err := markdown.Renderer().Render(&out, source, tree)
	return template.HTML(out.String()), err
}

// lowerHeadings places the headings of a body below the second level, which the page uses, and skips no level.
func lowerHeadings(tree ast.Node) {
	last := 2
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it returns no error
		if heading, ok := n.(*ast.Heading); ok && entering {
			heading.Level = min(heading.Level+2, last+1, 6)
			last = heading.Level
		}
		return ast.WalkContinue, nil
	})
}

// A safeRenderer renders what could load something, run something or lead away.
type safeRenderer struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (safeRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHTMLBlock, renderHTMLBlock)
	r.Register(ast.KindRawHTML, renderRawHTML)
	r.Register(ast.KindImage, renderImage)
	r.Register(ast.KindLink, renderLink)
	r.Register(ast.KindAutoLink, renderAutoLink)
	r.Register(ast.KindCodeBlock, renderCode)
	r.Register(ast.KindFencedCodeBlock, renderCode)
	r.Register(extensionast.KindTable, renderTable)
}

// safeURL returns the address of a link, or nothing if it must not be one.
func safeURL(destination []byte) string {
	parsed, err := url.Parse(string(destination))
	if err != nil {
		return ""
	}
	switch strings.ToLower(parsed.Scheme) {
	case "http", "https":
		if parsed.Host == "" {
			return ""
		}
	case "mailto":
	default:
		return ""
	}
	return parsed.String()
}

func renderHTMLBlock(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := n.(*ast.HTMLBlock)
	var text bytes.Buffer
	for i := range block.Lines().Len() {
		line := block.Lines().At(i)
		text.Write(line.Value(source))
	}
	if block.HasClosure() {
		text.Write(block.ClosureLine.Value(source))
	}
	_, _ = w.WriteString(`<pre tabindex="0">`)
	template.HTMLEscape(w, bytes.TrimRight(text.Bytes(), "\n"))
	_, err := w.WriteString("</pre>\n")
	return ast.WalkSkipChildren, err
}

func renderRawHTML(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		segments := n.(*ast.RawHTML).Segments
		for i := range segments.Len() {
			segment := segments.At(i)
			template.HTMLEscape(w, segment.Value(source))
		}
	}
	return ast.WalkSkipChildren, nil
}

func renderImage(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	text := `<span class="image">[image: `
	if !entering {
		text = "]</span>"
		showAddress(w, n.(*ast.Image).Destination)
	}
	_, err := w.WriteString(text)
	return ast.WalkContinue, err
}

// showAddress writes an address that is no link.
func showAddress(w util.BufWriter, destination []byte) {
	_, _ = w.WriteString(" <code>")
	template.HTMLEscape(w, destination)
	_, _ = w.WriteString("</code>")
}

func renderLink(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	destination := n.(*ast.Link).Destination
	switch address := safeURL(destination); {
	case address == "" && !entering:
		showAddress(w, destination)
	case address == "":
	case entering:
		openLink(w, address)
	default:
		_, _ = w.WriteString("</a>")
	}
	return ast.WalkContinue, nil
}

func openLink(w util.BufWriter, address string) {
	_, _ = w.WriteString(`<a rel="noopener noreferrer nofollow" href="`)
	template.HTMLEscape(w, []byte(address))
	_, _ = w.WriteString(`">`)
}

func renderAutoLink(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	link := n.(*ast.AutoLink)
	destination := link.URL(source)
	if link.AutoLinkType == ast.AutoLinkEmail && !bytes.HasPrefix(bytes.ToLower(destination), []byte("mailto:")) {
		destination = append([]byte("mailto:"), destination...)
	}
	address := safeURL(destination)
	if address != "" {
		openLink(w, address)
	}
	template.HTMLEscape(w, link.Label(source))
	if address != "" {
		_, _ = w.WriteString("</a>")
	}
	return ast.WalkContinue, nil
}

// renderCode renders a block that people without a mouse can scroll.
func renderCode(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		_, err := w.WriteString("</code></pre>\n")
		return ast.WalkContinue, err
	}
	_, _ = w.WriteString(`<pre tabindex="0"><code>`)
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		template.HTMLEscape(w, line.Value(source))
	}
	return ast.WalkContinue, nil
}

func renderTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	text := `<div class="scroll" role="group" aria-label="Table" tabindex="0"><table>` + "\n"
	if !entering {
		text = "</table></div>\n"
	}
	_, err := w.WriteString(text)
	return ast.WalkContinue, err
}
