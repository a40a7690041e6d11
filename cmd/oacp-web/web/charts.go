package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-analyze/charts"

	"github.com/oacp-go/oacp/internal/command"
)

// charted is how many of the latest turns a chart shows.
const charted = 40

// A chart shows a value of the latest turns.
type chart struct {
	name, title string
	value       func(*turnRow) float64
	format      func(float64) string
	turns       []turnRow
}

// A chartView is a chart as a page refers to it.
type chartView struct {
	Title, Text string
	// Path has the parts of its path.
	Path []string
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

// chartsOf returns the charts of turns, without those that would be empty.
func chartsOf(all []turnRow) []chart {
	turns := slices.DeleteFunc(slices.Clone(all[max(0, len(all)-charted):]), func(t turnRow) bool { return t.Runs })
	kinds := []chart{
		{"duration", "Duration", func(t *turnRow) float64 { return t.Took.Seconds() }, func(v float64) string { return seconds(v).String() }, turns},
		{"tokens", "Tokens", func(t *turnRow) float64 { return float64(t.Usage.InputTokens + t.Usage.OutputTokens) }, func(v float64) string { return command.Count(int64(v)) }, turns},
		{"cost", "Cost", func(t *turnRow) float64 { return t.Usage.CostUSD }, func(v float64) string { return command.Cost(v) }, turns},
	}
	return slices.DeleteFunc(kinds, func(c chart) bool {
		return !slices.ContainsFunc(turns, func(t turnRow) bool { return c.value(&t) > 0 })
	})
}

// seconds returns a duration as people read it.
func seconds(v float64) time.Duration {
	d := time.Duration(v * float64(time.Second))
	if d >= 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(10 * time.Millisecond)
}

// describe says in words what the chart shows.
func (c chart) describe() string {
	var total, most float64
	for i := range c.turns {
		total += c.value(&c.turns[i])
		most = max(most, c.value(&c.turns[i]))
	}
	return fmt.Sprintf("%s of the latest %d turns: %s in all, at most %s. The table has the values.", c.title, len(c.turns), c.format(total), c.format(most))
}

// draw returns the chart as SVG, with bars in the colour of the agent.
func (c chart) draw(v variant) ([]byte, error) {
	var agents, labels []string
	for _, t := range c.turns {
		labels = append(labels, fmt.Sprint(t.Number))
		if !slices.Contains(agents, t.Agent) {
			agents = append(agents, t.Agent)
		}
	}
	values := make([][]float64, len(agents))
	for i := range values {
		values[i] = make([]float64, len(c.turns))
	}
	for i := range c.turns {
		values[slices.Index(agents, c.turns[i].Agent)][i] = c.value(&c.turns[i])
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

// chartNamed returns the chart in a file name such as cost-dark.svg, and its variant.
func chartNamed(all []turnRow, file string) (chart, variant, bool) {
	for _, c := range chartsOf(all) {
		for _, v := range variants {
			if file == c.name+v.suffix+".svg" {
				return c, v, true
			}
		}
	}
	return chart{}, variant{}, false
}

// serveChart serves a chart of an agent's turns, or of a run.
func (s runPages) serveChart(w http.ResponseWriter, r *http.Request) {
	all, err := s.chartTurns(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	c, v, ok := chartNamed(all, r.PathValue("chart"))
	if !ok {
		s.refuse(w, r, http.StatusNotFound, "There is no such chart.")
		return
	}
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

func (s runPages) chartTurns(r *http.Request) ([]turnRow, error) {
	if r.PathValue("agent") == "" {
		o, err := s.overviewOf(r)
		if err != nil {
			return nil, err
		}
		return s.run(r.Context(), o, "").Table.all, nil
	}
	name, err := s.agentOf(r)
	if err != nil {
		return nil, err
	}
	table, err := s.turnsOf(name, "")
	return table.all, err
}

// Variant returns the parts of the path of a variant of the chart.
func (c chartView) Variant(suffix string) []string {
	last := len(c.Path) - 1
	return append(slices.Clone(c.Path[:last]), strings.TrimSuffix(c.Path[last], ".svg")+suffix+".svg")
}
