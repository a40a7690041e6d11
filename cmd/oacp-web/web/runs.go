package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/pair"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

const (
	// latestRuns is how many runs the list shows.
	latestRuns = 100
	// turnsPage and recordsPage are how many turns and records a page shows.
	turnsPage, recordsPage = 100, 50
	// maxRecord is how much of a record's content a page shows, in bytes.
	maxRecord = 64 << 10
)

// Runs says which runs of oacp pair and AgentPair pages show.
type Runs struct {
	// Root is the folder of all runs, and Repositories are the ids of those repositories whose runs are shown.
	Root         string
	Repositories []string
}

// runPages are the pages of runs.
type runPages struct{ *Server }

// route declares the pages.
func (s runPages) route() {
	const ofPair = "GET /runs/p/{repository}/{id}"
	s.mux.HandleFunc("GET /runs", s.page(s.runsPage))
	s.mux.HandleFunc("GET /runs/a/{agent}", s.page(s.agentTurnsPage))
	s.mux.HandleFunc("GET /runs/a/{agent}/{chart}", s.serveChart)
	s.mux.HandleFunc(ofPair, s.page(s.runPage))
	s.mux.HandleFunc(ofPair+"/records", s.page(s.recordsPage))
	s.mux.HandleFunc(ofPair+"/chart/{chart}", s.serveChart)
}

// A turnRow is a turn in a table.
type turnRow struct {
	Number    int
	Agent     string
	Began     time.Time
	Runs      bool
	Took      time.Duration
	Iteration int
	// Message and Subject are those of the message of the turn.
	Message schema.ID
	Subject string
	// Result is what a reviewer or worker said, or why the turn failed.
	Result string
	Failed bool
	Usage  agent.Usage
}

// A turnTable is a page of turns with the sums over all of them, and the charts of the latest.
type turnTable struct {
	Rows        []turnRow // the newest first
	Page, Pages int
	Turns       int
	Failed      int
	Took        time.Duration
	Usage       agent.Usage
	// Charts are links to the charts that have values.
	Charts []chartView
	all    []turnRow
}

func newTurnTable(all []turnRow, number string, chart func(name string) []string) (t turnTable) {
	t.all, t.Turns = all, len(all)
	for i := range all {
		row := &all[i]
		row.Number = i + 1
		t.Took += row.Took
		t.Usage = t.Usage.Plus(row.Usage)
		if row.Failed {
			t.Failed++
		}
	}
	var from, to int
	t.Page, t.Pages, from, to = pageOf(number, len(all), turnsPage)
	for i := from; i < to; i++ {
		t.Rows = append(t.Rows, all[len(all)-1-i])
	}
	for _, c := range chartsOf(all) {
		t.Charts = append(t.Charts, chartView{Title: c.title, Text: c.describe(), Path: chart(c.name + ".svg")})
	}
	return t
}

// pageOf returns which of the items a page shows. Anything that is not the number of a page is the nearest one.
func pageOf(number string, items, size int) (page, pages, from, to int) {
	page, _ = strconv.Atoi(number)
	pages = max(1, (items+size-1)/size)
	page = max(1, min(page, pages))
	return page, pages, (page - 1) * size, min(items, page*size)
}

// A runsView is the view model of the list of runs.
type runsView struct {
	Agents   []agentTurns
	Runs     []runView
	More     int
	Problems []string
}

// An agentTurns is what the turns of an agent add up to.
type agentTurns struct {
	Agent schema.AgentName
	turnTable
}

// A runView is a run of oacp pair or AgentPair, or a log that a mirror writes.
type runView struct {
	Repository string // its id
	Folder     string
	ID         int
	Kind       string
	Prompt     string
	State      string
	Problem    string
	Iteration  int
	Most       int
	Updated    time.Time
	Table      turnTable
	Records    int
	Passes     int
	Fails      int
}

func (s runPages) runsPage(r *http.Request) (page, error) {
	var v runsView
	note := func(err error) {
		if err != nil {
			v.Problems = append(v.Problems, failure.OneLine(err.Error()))
		}
	}
	agents, err := s.w.Agents()
	if err != nil {
		return page{}, err
	}
	for _, name := range agents {
		table, err := s.turnsOf(name, "")
		note(err)
		if table.Turns > 0 {
			v.Agents = append(v.Agents, agentTurns{name, table})
		}
	}
	overviews, err := pair.List(s.options.Runs.Root, s.options.Runs.Repositories...)
	note(err)
	v.More = max(0, len(overviews)-latestRuns)
	for _, o := range overviews[:len(overviews)-v.More] {
		v.Runs = append(v.Runs, s.run(r.Context(), o, ""))
	}
	slices.SortStableFunc(v.Runs, func(a, b runView) int { return cmp.Or(b.Updated.Compare(a.Updated), b.ID-a.ID) })
	return page{Title: "Runs", template: "runs", Section: "runs", Content: v}, r.Context().Err()
}

// turnsOf returns the turns that oacp run gave an agent.
func (s runPages) turnsOf(name schema.AgentName, number string) (turnTable, error) {
	turns, err := track.Turns(s.w, name)
	rows := make([]turnRow, 0, len(turns))
	for _, t := range turns {
		row := turnRow{
			Agent: string(name), Began: t.Started, Runs: t.Ended.IsZero(), Message: t.ID, Subject: cmp.Or(t.Subject, t.File),
			Result: t.Reason, Usage: agent.Usage(t.Usage),
		}
		if !row.Runs {
			row.Took, row.Failed = max(0, t.Ended.Sub(t.Started)), !t.Succeeded
		}
		rows = append(rows, row)
	}
	return newTurnTable(rows, number, func(chart string) []string { return []string{"runs", "a", string(name), chart} }), err
}

func (s runPages) agentTurnsPage(r *http.Request) (page, error) {
	name, err := s.agentOf(r)
	if err != nil {
		return page{}, err
	}
	table, err := s.turnsOf(name, r.URL.Query().Get("page"))
	return page{Title: "Turns of " + string(name), template: "turns", Section: "runs", Topic: string(name), Content: agentTurns{name, table}}, err
}

// agentOf returns the agent that the path of a request names.
func (s runPages) agentOf(r *http.Request) (schema.AgentName, error) {
	name, err := schema.ParseAgentName(r.PathValue("agent"))
	if err != nil {
		return "", &mailbox.UnknownAgentError{Agent: schema.AgentName(r.PathValue("agent"))}
	}
	return name, s.w.CheckAgent(name)
}

// run returns the view of a run. What cannot be read is its problem.
func (s runPages) run(ctx context.Context, o pair.Overview, number string) runView {
	m := &o.Manifest
	v := runView{
		Repository: o.Run.RepositoryID, Folder: m.RepoPath, ID: o.Run.ID, Kind: "oacp pair", Prompt: m.Prompt, State: string(m.State),
		Iteration: m.CurrentIteration, Most: m.MaxIterations, Updated: m.UpdatedAt,
	}
	status, bridgeErr := o.Run.Status(ctx)
	v.Records, v.Passes, v.Fails = status.TotalMessages+status.SkippedLines, status.PassCount, status.FailCount
	turns, turnsErr := pair.PastTurns(o.Run)
	isForeign := errors.Is(o.Err, pair.ErrForeignRun)
	switch {
	case isForeign && m.IsLog():
		v.Kind, v.State = "oacp mirror", "log"
		if info, err := os.Stat(o.Run.BridgePath()); err == nil { // nobody updates its manifest
			v.Updated = info.ModTime()
		}
	case isForeign:
		v.Kind = "AgentPair"
	case o.Err == nil && !m.State.Final() && !o.Driven:
		v.State += ", stopped"
	}
	if isForeign || errors.Is(o.Err, pair.ErrNeverBegun) {
		o.Err = nil
	}
	if err := errors.Join(o.Err, bridgeErr, turnsErr); err != nil {
		v.Problem = failure.OneLine(err.Error())
	} else if m.Error != "" {
		v.Problem = failure.OneLine(m.Error)
	}
	v.Table = newTurnTable(rowsOf(turns), number, func(chart string) []string { return v.Path("chart", chart) })
	return v
}

// Path returns the parts of the path of a page of the run.
func (v runView) Path(more ...string) []string {
	return append([]string{"runs", "p", v.Repository, strconv.Itoa(v.ID)}, more...)
}

func rowsOf(turns []pair.PastTurn) []turnRow {
	rows := make([]turnRow, 0, len(turns))
	for _, t := range turns {
		rows = append(rows, turnRow{
			Agent: string(t.Agent), Began: t.Began, Runs: !t.Ended, Took: max(0, t.Duration), Iteration: t.Iteration,
			Result: string(t.Signal), Failed: t.Signal == bridge.SignalFail, Usage: t.Usage,
		})
	}
	return rows
}

// overviewOf returns the run that the path of a request names.
func (s runPages) overviewOf(r *http.Request) (o pair.Overview, err error) {
	id, repository := r.PathValue("id"), r.PathValue("repository")
	if !slices.Contains(s.options.Runs.Repositories, repository) {
		return o, fmt.Errorf("run %s of %s: %w", id, repository, bridge.ErrNoRun)
	}
	runs, err := bridge.Runs(s.options.Runs.Root, repository)
	if err != nil {
		return o, err
	}
	at := slices.IndexFunc(runs, func(run bridge.Run) bool { return strconv.Itoa(run.ID) == id })
	if at < 0 {
		return o, fmt.Errorf("run %s: %w", id, bridge.ErrNoRun)
	}
	o.Run = runs[at]
	if o.Driven, err = pair.Driven(o.Run); err == nil {
		o.Manifest, o.Err = pair.ReadManifest(o.Run)
	}
	return o, err
}

func (s runPages) runPage(r *http.Request) (page, error) {
	o, err := s.overviewOf(r)
	if err != nil {
		return page{}, err
	}
	v := s.run(r.Context(), o, r.URL.Query().Get("page"))
	return page{Title: fmt.Sprintf("Run %d", v.ID), template: "run", Section: "runs", Content: v}, nil
}

// A recordsView is the view model of the records of a run.
type recordsView struct {
	runView
	Rows        []recordRow // the newest first
	Page, Pages int
}

// A recordRow is a record, or a line that is none.
type recordRow struct {
	bridge.Entry
	Body    template.HTML
	At      time.Time
	Problem string
}

func (s runPages) recordsPage(r *http.Request) (p page, err error) {
	o, err := s.overviewOf(r)
	if err != nil {
		return p, err
	}
	v := recordsView{runView: s.run(r.Context(), o, "")}
	var from, to int
	v.Page, v.Pages, from, to = pageOf(r.URL.Query().Get("page"), v.Records, recordsPage)
	log, err := o.Run.Open(nil)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	line := 0
	for e, err := range log.Records(r.Context(), "") {
		if err != nil && !is[*bridge.LineError](err) {
			return p, err
		}
		line++
		if line > v.Records-to && line <= v.Records-from {
			v.Rows = append(v.Rows, recordOf(e, err))
		}
	}
	slices.Reverse(v.Rows)
	return page{Title: fmt.Sprintf("Records of run %d", v.ID), template: "records", Section: "runs", Content: v}, nil
}

func recordOf(e bridge.Entry, err error) recordRow {
	row := recordRow{Entry: e}
	if err != nil {
		row.Problem = failure.OneLine(err.Error())
		return row
	}
	row.At, _ = time.Parse(time.RFC3339, e.Timestamp) // else it is shown as unknown
	text := e.Content
	if len(text) > maxRecord {
		text = text[:maxRecord] + "…"
	}
	row.Body = textHTML(text)
	return row
}
