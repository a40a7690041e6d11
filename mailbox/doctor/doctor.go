// Package doctor finds problems in a workspace, and fixes those that are safe to fix.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// A Severity says how bad a Finding is.
type Severity string

// The severities of findings, as the reference implementation names them.
const (
	SeverityOK      Severity = "ok"
	SeverityWarning Severity = "warn"
	SeverityError   Severity = "error"
	SeveritySkipped Severity = "skip"
)

// Categories of findings. The reference implementation has those up to Trust Root.
const (
	categoryWorkspace   = "Workspace"
	categoryInbox       = "Inbox Health"
	categorySchemas     = "Schemas"
	categoryAutonomy    = "Autonomy"
	categoryStatus      = "Agent Status"
	categoryTrust       = "Trust Root"
	categoryMailboxes   = "Mailboxes"
	categoryDelivery    = "Delivery"
	categoryDeadLetters = "Dead Letters"
	categoryContracts   = "Contracts"
	categoryGit         = "Git"
	categoryEnvironment = "Environment"
	categoryNotRepaired = "Not repaired"
)

// Categories are the categories that every workspace is inspected for, in order.
var Categories = []string{
	categoryWorkspace, categoryInbox, categorySchemas, categoryAutonomy, categoryStatus, categoryTrust,
	categoryMailboxes, categoryDelivery, categoryDeadLetters, categoryContracts,
}

// Finding is one thing that was inspected. Its JSON is that of the reference implementation.
type Finding struct {
	// Category groups findings.
	Category string `json:"-"`
	// Name is a path, or names the inspected thing.
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	// Hint tells what to do about it.
	Hint string `json:"fix_hint,omitempty"`
	// Mend fixes the problem and returns a line for each repair, even with an error. It is nil if a
	// person must decide.
	Mend func(context.Context) ([]string, error) `json:"-"`
}

// outgoingName is the folder of staged copies.
const outgoingName = schema.StateName + "/outgoing"

// Options configures an inspection.
type Options struct {
	Now time.Time
	// ProjectFolders reports whether the workspace is a project with all files of one of the reference
	// implementation. A workspace that looks like one is inspected as one in any case.
	ProjectFolders bool
	// Autonomy returns whether oacp run holds the messages of an agent, or why it cannot run.
	Autonomy func(*mailbox.Workspace, schema.AgentName) (project.Autonomy, error)
	// Contract is the path of oacp-contract, or empty.
	Contract string
	// Enclosing is the top of the git repository around the workspace, or empty.
	Enclosing string
}

// inspection collects findings.
type inspection struct {
	Options
	w        *mailbox.Workspace
	category string
	findings []Finding
	// agents are the agents of the workspace.
	agents []schema.AgentName
	// badMarker is set if workspace.json cannot be read.
	badMarker bool
}

func (i *inspection) add(name string, severity Severity, hint, format string, args ...any) *Finding {
	i.findings = append(i.findings, Finding{
		Category: i.category, Name: name, Severity: severity,
		Message: spelling.PlainYAML(fmt.Sprintf(format, args...)), Hint: hint,
	})
	return &i.findings[len(i.findings)-1]
}

// fail reports that something could not be inspected.
func (i *inspection) fail(name string, err error) {
	i.add(name, SeverityError, "", "%v", err)
}

// Inspect returns the findings about the workspace, good and bad. It changes nothing.
func Inspect(ctx context.Context, w *mailbox.Workspace, options Options) ([]Finding, error) {
	i := &inspection{w: w, Options: options}
	i.ProjectFolders = i.ProjectFolders || project.HasProjectFolders(w)
	agents, err := w.Agents()
	if err != nil {
		return i.findings, err
	}
	i.agents = agents
	i.workspace()
	for _, agent := range agents {
		i.inbox(ctx, agent)
	}
	i.schemas()
	people := slices.DeleteFunc(slices.Clone(agents), func(agent schema.AgentName) bool { return agent == mailbox.Postmaster })
	for _, agent := range people {
		i.autonomy(agent)
	}
	for _, agent := range people {
		i.status(agent)
	}
	i.trust()
	i.mailboxes()
	i.delivery()
	i.state(ctx)
	for _, agent := range agents {
		i.deadLetters(agent)
	}
	i.contracts(ctx)
	i.git(ctx)
	return i.findings, context.Cause(ctx)
}

// Repair makes the safe repairs. It returns a line for each repair, and the findings of an inspection after
// that, with a finding for each repair that failed.
func Repair(ctx context.Context, w *mailbox.Workspace, options Options) (fixed []string, left []Finding, err error) {
	findings, err := Inspect(ctx, w, options)
	if err != nil {
		return nil, findings, err
	}
	fixed = []string{}
	var failed []Finding
	for _, f := range findings {
		if f.Mend == nil {
			continue
		}
		done, err := f.Mend(ctx)
		fixed = append(fixed, done...)
		if err != nil {
			failed = append(failed, Finding{
				Category: categoryNotRepaired, Name: f.Name, Severity: SeverityError, Message: strings.ReplaceAll(err.Error(), "\n", "; "),
			})
		}
	}
	left, err = Inspect(ctx, w, options)
	return fixed, append(left, failed...), err
}

func (i *inspection) workspace() {
	i.category = categoryWorkspace
	switch _, err := i.w.Root().Lstat(schema.MarkerName); {
	case errors.Is(err, fs.ErrNotExist):
		severity := map[bool]Severity{true: SeverityWarning, false: SeverityError}[i.ProjectFolders]
		f := i.add(schema.MarkerName, severity, "oacp doctor --fix makes it", "is missing: the workspace is not found from folders inside it")
		f.Mend = mend("made "+schema.MarkerName, func() error {
			_, err := project.WriteMarker(i.w, project.InitOptions{Now: i.Now})
			return err
		})
	case err != nil:
		i.fail(schema.MarkerName, err)
	default:
		if err := project.CheckMarker(i.w); err != nil {
			i.badMarker = true
			i.add(schema.MarkerName, SeverityError, `move it away; oacp init --agents "" makes a new one`, "cannot be read: %v", err)
			break
		}
		i.add(schema.MarkerName, SeverityOK, "", "is valid")
	}
	if _, err := i.w.Root().Lstat(schema.AgentsName); errors.Is(err, fs.ErrNotExist) {
		i.add(schema.AgentsName+"/", SeverityWarning, "oacp add-agent NAME", "is missing: there are no agents")
		return
	}
	i.add(schema.AgentsName+"/", SeverityOK, "", "%s", spelling.Count(len(i.agents), "agent"))
}

// mend makes a Mend of a single repair.
func mend(done string, repair func() error) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) {
		if err := repair(); err != nil {
			return nil, err
		}
		return []string{done}, nil
	}
}

// A Report is what the reference implementation's doctor prints as JSON.
type Report struct {
	HasErrors bool   `json:"has_errors"`
	Workspace string `json:"workspace,omitempty"`
	// Fixed has a line for each repair.
	Fixed      []string   `json:"fixed"`
	Categories []Category `json:"categories"`
}

// A Category is a group of findings.
type Category struct {
	Name    string    `json:"name"`
	Worst   Severity  `json:"worst_severity"`
	Results []Finding `json:"results"`
}

// Group returns the category of the name, which it adds at the end if there is none.
func (r *Report) Group(name string) *Category {
	at := slices.IndexFunc(r.Categories, func(c Category) bool { return c.Name == name })
	if at < 0 {
		at = len(r.Categories)
		r.Categories = append(r.Categories, Category{Name: name, Worst: SeverityOK, Results: []Finding{}})
	}
	return &r.Categories[at]
}

// ascending are the severities, the worst one last.
var ascending = []Severity{SeverityOK, SeveritySkipped, SeverityWarning, SeverityError}

// Add files findings under their categories.
func (r *Report) Add(findings ...Finding) {
	for _, f := range findings {
		r.HasErrors = r.HasErrors || f.Severity == SeverityError
		c := r.Group(f.Category)
		c.Results = append(c.Results, f)
		c.Worst = ascending[max(slices.Index(ascending, c.Worst), slices.Index(ascending, f.Severity))]
	}
}
