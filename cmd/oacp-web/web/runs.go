package web

import (
	"cmp"
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
	"github.com/oacp-go/oacp/internal/visible"
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
	s.handle("GET /runs", s.page(s.runsPage))
	s.handle("GET /runs/a/{agent}", s.page(s.agentTurnsPage))
	s.handle("GET /runs/a/{agent}/{chart}", s.serveChart(s.agentTurns))
	s.handle("GET /runs/p/{repository}/{id}", s.page(s.runPage))
	s.handle("GET /runs/p/{repository}/{id}/{chart}", s.serveChart(func(r *http.Request) (turnTable, error) {
		v, err := s.run(r)
		return v.Table, err
	}))
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

// A turnTable has turns, the sums over all of them, and charts of the latest.
type turnTable struct {
	// Rows are the turns that the page shows, the newest first.
	Rows []turnRow
	paging
	Turns  int
	Failed int
	Took   time.Duration
	Usage  agent.Usage
	// Charts are those that have values.
	Charts []chart
}

// newTurnTable returns the table of turns, the oldest first, at a path.
func newTurnTable(r *http.Request, all []turnRow, path ...string) (t turnTable) {
	t.Turns = len(all)
	var from, to int
	t.paging, from, to = pagingOf(r, len(all), turnsPage)
	for i := range all {
		row := &all[i]
		row.Number = i + 1
		t.Took += row.Took
		t.Usage = t.Usage.Plus(row.Usage)
		if row.Failed {
			t.Failed++
		}
	}
	t.Charts = chartsOf(all, path)
	t.Rows = all[len(all)-to : len(all)-from]
	slices.Reverse(t.Rows)
	return t
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
	bridge.Run
	pair.Manifest
	bridge.Status
	// Kind is the program that made the run, and Stage what the run does now, in words.
	Kind, Stage string
	Problem     string
	Updated     time.Time
	Table       turnTable
	// Records are those that the page shows, the newest first.
	Records []recordRow
	paging
}

// A recordRow is a line of a bridge log: a record, or the reason why the line is not one.
type recordRow struct {
	bridge.Entry
	Body    template.HTML
	At      time.Time
	Problem string
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
		table, err := s.turnsOf(r, name)
		note(err)
		if table.Turns > 0 {
			v.Agents = append(v.Agents, agentTurns{name, table})
		}
	}
	overviews, err := pair.List(s.options.Runs.Root, s.options.Runs.Repositories...)
	note(err)
	v.More = max(0, len(overviews)-latestRuns)
	for _, o := range overviews[:len(overviews)-v.More] {
		v.Runs = append(v.Runs, s.view(r, o))
	}
	slices.SortStableFunc(v.Runs, func(a, b runView) int { return cmp.Or(b.Updated.Compare(a.Updated), b.Run.ID-a.Run.ID) })
	return page{Title: "Runs", Template: "runs", Section: "runs", Content: v}, r.Context().Err()
}

// turnsOf returns the turns that oacp run gave an agent.
func (s runPages) turnsOf(r *http.Request, name schema.AgentName) (turnTable, error) {
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
	return newTurnTable(r, rows, "runs", "a", string(name)), err
}

// agentTurns returns the turns of the agent that the path of a request names.
func (s runPages) agentTurns(r *http.Request) (turnTable, error) {
	name, err := s.agentOf(r)
	if err != nil {
		return turnTable{}, err
	}
	return s.turnsOf(r, name)
}

func (s runPages) agentTurnsPage(r *http.Request) (page, error) {
	table, err := s.agentTurns(r)
	name := r.PathValue("agent")
	return page{Title: "Turns of " + name, Template: "turns", Section: "runs", Content: agentTurns{schema.AgentName(name), table}}, err
}

// view returns the view of a run without its records. What cannot be read is its problem.
func (s runPages) view(r *http.Request, o pair.Overview) runView {
	v := runView{Run: o.Run, Manifest: o.Manifest, Kind: "oacp pair", Stage: string(o.Manifest.State), Updated: o.Manifest.UpdatedAt}
	var statusErr error
	v.Status, statusErr = o.Run.Status(r.Context())
	turns, turnsErr := pair.PastTurns(o.Run)
	isForeign, isLog := errors.Is(o.Err, pair.ErrForeignRun), errors.Is(o.Err, pair.ErrLogRun)
	switch {
	case isLog:
		v.Kind, v.Stage = "oacp mirror", "log"
		if info, err := os.Stat(o.Run.BridgePath()); err == nil { // nobody updates its manifest
			v.Updated = info.ModTime()
		}
	case isForeign:
		v.Kind = "AgentPair"
	case o.Err == nil && !v.State.Final() && !o.Driven:
		v.Stage += ", stopped"
	}
	if isForeign || isLog || errors.Is(o.Err, pair.ErrNeverBegun) {
		o.Err = nil
	}
	if err := errors.Join(o.Err, statusErr, turnsErr); err != nil {
		v.Problem = failure.OneLine(err.Error())
	} else if v.Error != "" {
		v.Problem = failure.OneLine(v.Error)
	}
	rows := make([]turnRow, 0, len(turns))
	for _, t := range turns {
		rows = append(rows, turnRow{
			Agent: string(t.Agent), Began: t.Began, Runs: !t.Ended, Took: max(0, t.Duration), Iteration: t.Iteration,
			Result: string(t.Signal), Failed: t.Signal == bridge.SignalFail, Usage: t.Usage,
		})
	}
	v.Table = newTurnTable(r, rows, v.Path()...)
	v.Table.paging = paging{} // the number in the request is that of a page of records
	return v
}

// Path returns the parts of the path of the run's page.
func (v runView) Path() []string { return runPath(&v.Run) }

func runPath(r *bridge.Run) []string {
	return []string{"runs", "p", r.RepositoryID, strconv.Itoa(r.ID)}
}

// run returns the view of the run that the path of a request names.
func (s runPages) run(r *http.Request) (runView, error) {
	id, repository := r.PathValue("id"), r.PathValue("repository")
	noRun := fmt.Errorf("run %s of %s: %w", id, repository, bridge.ErrNoRun)
	if !slices.Contains(s.options.Runs.Repositories, repository) {
		return runView{}, noRun
	}
	all, err := pair.List(s.options.Runs.Root, repository)
	at := slices.IndexFunc(all, func(o pair.Overview) bool { return strconv.Itoa(o.Run.ID) == id })
	if at < 0 {
		return runView{}, cmp.Or(err, noRun)
	}
	return s.view(r, all[at]), nil
}

func (s runPages) runPage(r *http.Request) (p page, err error) {
	v, err := s.run(r)
	if err != nil {
		return p, err
	}
	lines := v.TotalMessages + v.SkippedLines
	var from, to int
	v.paging, from, to = pagingOf(r, lines, recordsPage)
	log, err := v.Open(nil)
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
		if line > lines-to && line <= lines-from {
			v.Records = append(v.Records, recordOf(e, err))
		}
	}
	slices.Reverse(v.Records)
	return page{Title: fmt.Sprintf("Run %d", v.Run.ID), Template: "run", Section: "runs", Content: v}, nil
}

func recordOf(e bridge.Entry, err error) recordRow {
	row := recordRow{Entry: e}
	if err != nil {
		row.Problem = failure.OneLine(err.Error())
		return row
	}
	row.At, _ = time.Parse(time.RFC3339, e.Timestamp) // else it is shown as unknown
	row.Body = textHTML(visible.ShortBytes(e.Content, maxRecord))
	return row
}
