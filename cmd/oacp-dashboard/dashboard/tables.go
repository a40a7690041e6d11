package dashboard

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// grids returns the tables of the panes. A target limits the messages to those of an agent.
func (s Snapshot) grids(only target) [panes]grid {
	return [panes]grid{agentsGrid(s), runsGrid(s), messagesGrid(s.messages(only), s.local())}
}

func agentsGrid(s Snapshot) grid {
	g := grid{
		header:  []string{"AGENT", "INBOX", "HELD", "BAD", "DEAD", "ACTIVE", "TURN"},
		numbers: map[string]bool{"INBOX": true, "HELD": true, "BAD": true, "DEAD": true, "ACTIVE": true},
	}
	for _, w := range s.Workspaces {
		if w.Problem != "" {
			g.rows = append(g.rows, row{cells: []string{w.name(), "", "", "", "", "", w.Problem}})
		}
		for _, a := range w.Agents {
			name := string(a.Agent)
			if len(s.Workspaces) > 1 {
				name = w.name() + "/" + name
			}
			g.rows = append(g.rows, row{target{workspace: w.Dir, agent: a.Agent}, []string{
				name, strconv.Itoa(a.Inbox), strconv.Itoa(a.Held), strconv.Itoa(a.Invalid), strconv.Itoa(a.DeadLetters),
				age(a.Activity, s.At), a.turnText(s.At),
			}})
		}
	}
	return g
}

// name is the project of the workspace, or else its folder.
func (w Workspace) name() string { return cmp.Or(w.Project, filepath.Base(w.Dir)) }

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
		return fmt.Sprintf("failed %s: %s", times(a.Failures), a.Last.Reason)
	case len(a.presence) > 0:
		return strings.Join(a.presence, "; ")
	}
	return "nothing known"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

func runsGrid(s Snapshot) grid {
	g := grid{
		header:  []string{"RUN", "STATE", "ITER", "SIGNALS", "COST", "ACTIVE", "TASK"},
		numbers: map[string]bool{"COST": true, "ACTIVE": true},
	}
	if s.Problem != "" {
		g.rows = append(g.rows, row{cells: []string{"", "", "", "", "", "", s.Problem}})
	}
	several := slices.ContainsFunc(s.Runs, func(r Run) bool { return r.RepositoryID != s.Runs[0].RepositoryID })
	for _, r := range s.Runs {
		name := strconv.Itoa(r.ID)
		switch {
		case several && r.Repository == "":
			name = r.RepositoryID + "#" + name
		case several:
			name = filepath.Base(r.Repository) + "#" + name
		}
		g.rows = append(g.rows, row{target{run: r.place}, []string{
			name, r.stateText(), r.iterationText(), r.signals(), r.cost(), age(r.Updated, s.At), r.task(),
		}})
	}
	return g
}

// stateText returns the state with the agents whose turn it is, or the state in which the run
// stopped.
func (r Run) stateText() string {
	if r.Driven != nil && !*r.Driven {
		return fmt.Sprintf("stopped (%s)", r.State)
	}
	switch len(r.Turns) {
	case 0:
		return string(r.State)
	case 1:
		return fmt.Sprintf("%s (%s)", r.State, r.Turns[0])
	}
	return fmt.Sprintf("%s (both)", r.State)
}

func (r Run) iterationText() string {
	if r.MaxIterations == 0 {
		return "" // there is no manifest yet
	}
	return fmt.Sprintf("%d/%d", r.Iteration, r.MaxIterations)
}

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

// cost returns the known cost, or else the tokens: codex reports no cost.
func (r Run) cost() string {
	if cost := command.Cost(r.CostUSD); cost != "" {
		return cost
	}
	if tokens := command.Count(r.Tokens); tokens != "" {
		return tokens + " tok"
	}
	return ""
}

// task returns the problem of the run if it has one, otherwise its task.
func (r Run) task() string {
	prompt := r.Prompt
	if r.State == stateLog {
		prompt = "no agents: a mirror or oacp bridge writes it"
	}
	return cmp.Or(r.Problem, r.Error, prompt)
}

func messagesGrid(messages []Message, now time.Time) grid {
	g := grid{header: []string{"TIME", "FROM", "TO", "TYPE", "PRIO", "STAGE", "SUBJECT"}}
	for _, m := range messages {
		g.rows = append(g.rows, row{target{message: m.ID}, []string{
			clock(m.CreatedAt, now), string(m.From), spelling.Join(m.To), string(m.Type), string(m.Priority), m.stageText(), m.Subject,
		}})
	}
	return g
}

// stageText returns the most urgent of the stages, and whether the message is not valid.
func (m *Message) stageText() string {
	if m.Error != "" && m.Stage != track.StageHeld {
		return strings.TrimPrefix(string(m.Stage)+", not valid", ", ")
	}
	return string(m.Stage)
}

// clock returns the time of day of a message from today, in the zone of now, or else its date.
func clock(at schema.Timestamp, now time.Time) string {
	t := at.Time()
	if t.IsZero() {
		return string(at)
	}
	t = t.In(now.Location())
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	return t.Format(time.DateOnly)
}

// age returns how long ago a time was, in the largest unit.
func age(from, now time.Time) string {
	if from.IsZero() {
		return ""
	}
	return spelling.Age(from, now)
}
