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
	categoryAutonomy    = "Autonomy"
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
	categoryWorkspace, categoryInbox, categoryAutonomy, categoryTrust, categoryMailboxes, categoryDelivery, categoryDeadLetters,
	categoryContracts,
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
}

// outgoingName is the folder of staged copies.
const outgoingName = schema.StateName + "/outgoing"

// Options configures an inspection.
type Options struct {
	Now time.Time
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
	agents, err := w.Agents()
	if err != nil {
		return i.findings, err
	}
	i.agents = agents
	i.workspace()
	people := slices.DeleteFunc(slices.Clone(agents), func(agent schema.AgentName) bool { return agent == mailbox.Postmaster })
	for _, agent := range people {
		i.inbox(ctx, agent)
	}
	for _, agent := range people {
		i.autonomy(agent)
	}
	i.trust()
	i.mailboxes()
	i.delivery()
	for _, agent := range agents {
		i.deadLetters(agent)
	}
	i.contracts(ctx)
	i.git(ctx)
	return i.findings, context.Cause(ctx)
}

// Repair completes or sweeps interrupted deliveries. It returns a line for each repair, and the findings of an
// inspection after that, with one for a repair that failed.
func Repair(ctx context.Context, w *mailbox.Workspace, options Options) (fixed []string, left []Finding, err error) {
	recovered, failed := w.Recover(ctx)
	fixed = []string{}
	for _, path := range recovered.Published {
		fixed = append(fixed, "delivered "+path)
	}
	for _, path := range recovered.Swept {
		fixed = append(fixed, "swept "+path)
	}
	for _, path := range recovered.DeadLetters {
		fixed = append(fixed, "moved to the sender's dead letters: "+path)
	}
	left, err = Inspect(ctx, w, options)
	if failed != nil {
		left = append(left, Finding{
			Category: categoryNotRepaired, Name: outgoingName, Severity: SeverityError, Message: strings.ReplaceAll(failed.Error(), "\n", "; "),
		})
	}
	return fixed, left, err
}

// initHint says how to make the files of the workspace that are missing.
const initHint = "oacp init makes it, in the folder of the workspace"

func (i *inspection) workspace() {
	i.category = categoryWorkspace
	switch err := project.CheckMarker(i.w); {
	case errors.Is(err, fs.ErrNotExist):
		i.add(schema.MarkerName, SeverityWarning, initHint, "is missing: the workspace is not found from folders inside it")
	case err != nil:
		i.badMarker = true
		i.add(schema.MarkerName, SeverityError, "move it away; "+initHint, "cannot be read: %v", err)
	default:
		i.add(schema.MarkerName, SeverityOK, "", "is valid")
	}
	if len(i.agents) == 0 {
		i.add(schema.AgentsName+"/", SeverityWarning, "oacp add-agent NAME", "there are no agents")
		return
	}
	i.add(schema.AgentsName+"/", SeverityOK, "", "%s", spelling.Plural(len(i.agents), "agent"))
}

// autonomy checks what oacp reads of an agent's config.yaml. The rest of its section autonomy is for other tools.
func (i *inspection) autonomy(agent schema.AgentName) {
	i.category = categoryAutonomy
	name := string(agent) + "/" + project.ConfigName
	switch mode, err := i.Autonomy(i.w, agent); {
	case err != nil && i.badMarker: // workspace.json is to blame
	case err != nil:
		i.add(name, SeverityError, "oacp run does not start until that is mended", "%v", err)
	case mode.Holds():
		i.add(name, SeverityOK, "", "oacp run holds all messages for a person")
	default:
		i.add(name, SeverityOK, "", "oacp run gives turns")
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
