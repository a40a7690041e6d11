package dashboard

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// agentsGrid shows the agents of all workspaces.
func agentsGrid(s Snapshot) grid {
	g := grid{columns: []column{
		{name: "AGENT"}, {name: "INBOX", number: true}, {name: "HELD", number: true, drop: 2}, {name: "BAD", number: true, drop: 3},
		{name: "DEAD", number: true, drop: 4}, {name: "ACTIVE", number: true, drop: 1}, {name: "TURN"},
	}}
	for _, w := range s.Workspaces {
		if w.Problem != "" {
			g.rows = append(g.rows, row{cells: []string{w.name(), "", "", "", "", "", w.Problem}})
		}
		for _, a := range w.Agents {
			name := string(a.Agent)
			if len(s.Workspaces) > 1 {
				name = w.name() + "/" + name
			}
			g.rows = append(g.rows, row{target{folder: w.Dir, agent: a.Agent}, []string{
				name, strconv.Itoa(a.Inbox), strconv.Itoa(a.Held), strconv.Itoa(a.Invalid), strconv.Itoa(a.DeadLetters),
				age(a.Activity, s.At), a.turnText(s.At),
			}})
		}
	}
	return g
}

// name is how people call the workspace.
func (w Workspace) name() string {
	if w.Project != "" {
		return w.Project
	}
	return filepath.Base(w.Dir)
}

// turnText says what the agent does.
func (a Agent) turnText(now time.Time) string {
	switch {
	case a.Problem != "":
		return a.Problem
	case len(a.InTurn) > 0:
		t := a.InTurn[0]
		more := ""
		if len(a.InTurn) > 1 {
			more = fmt.Sprintf(" (and %d more)", len(a.InTurn)-1)
		}
		return fmt.Sprintf("for %s on %s: %s%s", age(t.Started, now), t.From, t.Subject, more)
	case a.Failures > 0 && a.Last != nil:
		return fmt.Sprintf("%d failed, lastly: %s", a.Failures, a.Last.Reason)
	case a.Running:
		return "waiting for messages"
	}
	return "nobody runs it"
}

// runsGrid shows the runs.
func runsGrid(s Snapshot) grid {
	g := grid{columns: []column{
		{name: "RUN"}, {name: "STATE"}, {name: "ITER", drop: 4}, {name: "SIGNALS", drop: 3},
		{name: "COST", number: true, drop: 2}, {name: "ACTIVE", number: true, drop: 1}, {name: "TASK"},
	}}
	if s.Problem != "" {
		g.rows = append(g.rows, row{cells: []string{"", "", "", "", "", "", s.Problem}})
	}
	several := false
	for _, r := range s.Runs {
		several = several || r.RepositoryID != s.Runs[0].RepositoryID
	}
	for _, r := range s.Runs {
		name := strconv.Itoa(r.ID)
		if several {
			name = r.repositoryName() + "#" + name
		}
		g.rows = append(g.rows, row{target{folder: r.place.Folder}, []string{
			name, r.stateText(), r.iterationText(), r.signals(), r.cost(),
			age(r.Updated, s.At), r.task(),
		}})
	}
	return g
}

func (r Run) repositoryName() string {
	if r.Repository == "" {
		return r.RepositoryID
	}
	return filepath.Base(r.Repository)
}

// stateText names the state and whose turn it is, or the state in which the
// run stopped, to be resumed.
func (r Run) stateText() string {
	if r.Driven != nil && !*r.Driven {
		return fmt.Sprintf("stopped (%s)", r.State)
	}
	if r.Turn != "" {
		return fmt.Sprintf("%s (%s)", r.State, r.Turn)
	}
	return string(r.State)
}

// iterationText tells the iteration, and how many there may be, once there is
// a manifest that says so.
func (r Run) iterationText() string {
	if r.MaxIterations == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", r.Iteration, r.MaxIterations)
}

// signals says which signals the log has.
func (r Run) signals() string {
	var all []string
	if r.Bridge.HasDoneSignal {
		all = append(all, "DONE")
	}
	if r.Bridge.PassCount > 0 {
		all = append(all, fmt.Sprintf("%d PASS", r.Bridge.PassCount))
	}
	if r.Bridge.FailCount > 0 {
		all = append(all, fmt.Sprintf("%d FAIL", r.Bridge.FailCount))
	}
	return strings.Join(all, " ")
}

// cost says what the run cost and, of the turns whose agents did not tell,
// what they used.
func (r Run) cost() string {
	var parts []string
	switch {
	case r.CostUSD >= 0.01:
		parts = append(parts, fmt.Sprintf("$%.2f", r.CostUSD))
	case r.CostUSD > 0:
		parts = append(parts, "<$0.01")
	}
	if r.UnpricedTokens > 0 {
		parts = append(parts, tokenCount(r.UnpricedTokens)+" tok")
	}
	return strings.Join(parts, " + ")
}

// tokenCount is a number of tokens in the greatest unit that leaves it two
// digits.
func tokenCount(tokens int64) string {
	switch {
	case tokens < 10_000:
		return strconv.FormatInt(tokens, 10)
	case tokens < 10_000_000:
		return fmt.Sprintf("%dk", tokens/1000)
	}
	return fmt.Sprintf("%dM", tokens/1_000_000)
}

// task says what the run is about, or what went wrong.
func (r Run) task() string {
	for _, text := range []string{r.Problem, r.Error} {
		if text != "" {
			return text
		}
	}
	return r.Prompt
}

// messagesGrid shows messages.
func messagesGrid(messages []Message, now time.Time) grid {
	g := grid{columns: []column{
		{name: "TIME", drop: 5}, {name: "FROM"}, {name: "TO", drop: 4}, {name: "TYPE", drop: 2},
		{name: "PRIO", drop: 1}, {name: "STATE", drop: 3}, {name: "SUBJECT"},
	}}
	for _, m := range messages {
		state := "handled"
		if len(m.Waiting) > 0 {
			state = "waiting"
		}
		g.rows = append(g.rows, row{target{message: m.ID}, []string{
			clock(m.CreatedAt, now), string(m.From), joinNames(m.To), string(m.Type), string(m.Priority), state, m.Subject,
		}})
	}
	return g
}

func joinNames(names []schema.AgentName) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ",")
}

// clock is the time of a message, in UTC as it stands there: of today the time,
// otherwise the date.
func clock(at schema.Timestamp, now time.Time) string {
	t := at.Time()
	switch {
	case t.IsZero():
		return string(at)
	case t.Format(time.DateOnly) == now.UTC().Format(time.DateOnly):
		return t.Format("15:04")
	}
	return t.Format(time.DateOnly)
}

// age says how long ago something was, in its greatest unit.
func age(from, now time.Time) string {
	d := max(0, now.Sub(from))
	switch {
	case from.IsZero():
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
