package web

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-analyze/charts"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/visible"
)

const (
	// charted is how many of the latest turns a chart shows.
	charted = 40
	// maxName is how much of the name of an agent a legend shows, in bytes. A transcript may have any name.
	maxName = 40
)

// A chart shows a value of the latest turns.
type chart struct {
	name, Title string
	value       func(*turnRow) float64
	format      func(float64) string
	turns       []turnRow
	path        []string // of the page with the turns
}

// A variant is a form of a chart for the reader's device.
type variant struct {
	suffix        string
	dark          bool
	width, height int
}

var variants = []variant{
	{"", false, 760, 240}, {"-dark", true, 760, 240}, {"-small", false, 360, 220}, {"-small-dark", true, 360, 220},
}

// chartsOf returns the charts of turns that the page at a path shows, without those that would be empty.
func chartsOf(all []turnRow, path []string) []chart {
	turns := slices.DeleteFunc(slices.Clone(all[max(0, len(all)-charted):]), func(t turnRow) bool { return t.Runs })
	kinds := []chart{
		{"duration", "Duration", func(t *turnRow) float64 { return t.Took.Seconds() }, func(v float64) string { return seconds(v).String() }, turns, path},
		{"tokens", "Tokens", func(t *turnRow) float64 { return float64(t.Usage.InputTokens + t.Usage.OutputTokens) }, func(v float64) string { return command.Count(int64(v)) }, turns, path},
		{"cost", "Cost", func(t *turnRow) float64 { return t.Usage.CostUSD }, func(v float64) string { return command.Cost(v) }, turns, path},
	}
	return slices.DeleteFunc(kinds, func(c chart) bool {
		return !slices.ContainsFunc(turns, func(t turnRow) bool { return c.value(&t) > 0 })
	})
}

// File returns the parts of the path of a variant.
func (c chart) File(suffix string) []string {
	return append(slices.Clone(c.path), c.name+suffix+".svg")
}

// seconds returns a duration as people read it.
func seconds(v float64) time.Duration {
	d := time.Duration(v * float64(time.Second))
	if d >= 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(10 * time.Millisecond)
}

// Text says in words what the chart shows.
func (c chart) Text() string {
	var total, most float64
	for i := range c.turns {
		total += c.value(&c.turns[i])
		most = max(most, c.value(&c.turns[i]))
	}
	return fmt.Sprintf("%s of the latest %d turns: %s in all, at most %s. The table has the values.", c.Title, len(c.turns), c.format(total), c.format(most))
}

// draw returns the chart as SVG, with bars in the colour of the agent.
func (c chart) draw(v variant) ([]byte, error) {
	var agents, labels []string
	var values [][]float64 // of each agent, those of all turns
	for i, t := range c.turns {
		labels = append(labels, fmt.Sprint(t.Number))
		name := visible.Line(t.Agent[:min(len(t.Agent), maxName)])
		at := slices.Index(agents, name)
		if at < 0 {
			at = len(agents)
			agents, values = append(agents, name), append(values, make([]float64, len(c.turns)))
		}
		values[at][i] = c.value(&t)
	}
	options := charts.NewBarChartOptionWithData(values)
	options.Theme = palettes[v.dark]
	options.StackSeries = charts.Ptr(true)
	options.Legend.SeriesNames, options.Legend.Show = agents, charts.Ptr(len(agents) > 1)
	options.CategoryAxis.Labels = labels
	options.CategoryAxis.LabelCount = min(len(labels), v.width/70)
	options.ValueAxis[0].ValueFormatter = func(v float64) string {
		if v == 0 {
			return "0"
		}
		return c.format(v)
	}
	for _, style := range []*charts.FontStyle{&options.CategoryAxis.LabelFontStyle, &options.ValueAxis[0].LabelFontStyle, &options.Legend.FontStyle} {
		style.FontSize = 11
	}
	painter := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: v.width, Height: v.height})
	if err := painter.BarChart(options); err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.name, err)
	}
	return painter.Bytes()
}

// palettes are the colours of charts on light and dark pages, which the stylesheet has as well.
var palettes = map[bool]charts.ColorPalette{
	false: palette(false, "#ffffff", "#1d2320", "#dfe3df", "#1f6a4d", "#175e8c", "#8a5a00"),
	true:  palette(true, "#1b2021", "#dfe5e1", "#313938", "#58b48c", "#7fbfe8", "#e3b04b"),
}

func palette(dark bool, paper, ink, line string, bars ...string) charts.ColorPalette {
	o := charts.ThemeOption{
		IsDarkMode: dark, BackgroundColor: charts.ColorFromHex(paper), TextColor: charts.ColorFromHex(ink),
		AxisStrokeColor: charts.ColorFromHex(ink), AxisSplitLineColor: charts.ColorFromHex(line),
	}
	for _, bar := range bars {
		o.SeriesColors = append(o.SeriesColors, charts.ColorFromHex(bar))
	}
	return charts.MakeTheme(o)
}

// serveChart serves a chart of the turns of a request, in the variant that its path names.
func (s runPages) serveChart(turns func(*http.Request) (turnTable, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		table, err := turns(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		for _, c := range table.Charts {
			for _, v := range variants {
				if r.PathValue("chart") == c.name+v.suffix+".svg" {
					s.serveDrawing(w, r, c, v)
					return
				}
			}
		}
		s.refuse(w, r, http.StatusNotFound, "There is no such chart.")
	}
}

func (s runPages) serveDrawing(w http.ResponseWriter, r *http.Request, c chart, v variant) {
	data, err := c.draw(v)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	// The library styles its elements. A browser that shows the chart as a page may do so, but nothing else.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write(data) // the client may be gone
}
