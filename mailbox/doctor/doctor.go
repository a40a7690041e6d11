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
	"github.com/oacp-go/oacp/mailbox/settings"
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

// Categories of findings. The reference implementation has the first four.
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

// Finding is the result for one inspected thing. Its JSON is that of the reference implementation.
type Finding struct {
	// Category groups findings.
	Category string `json:"-"`
	// Name is a path or another name of the inspected thing.
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	// Hint says what to do about it.
	Hint string `json:"fix_hint,omitempty"`
}

const outgoingName = schema.StateName + "/outgoing"

// Options configures an inspection.
type Options struct {
	Now time.Time
	// Autonomy returns the autonomy of an agent for oacp run, or why the agent cannot run. With a
	// *settings.NotAllowedError, it returns both.
	Autonomy func(*mailbox.Workspace, schema.AgentName) (project.Autonomy, error)
	// Notify returns why mail to an agent does not run the command of its settings.
	Notify func(*mailbox.Workspace, schema.AgentName) error
	// Contract is the path of oacp-contract, or empty.
	Contract string
	// Enclosing is the top of the git repository around the workspace, or empty.
	Enclosing string
}

type inspection struct {
	Options
	w        *mailbox.Workspace
	category string
	findings []Finding
	agents   []schema.AgentName
	// badMarker says that workspace.json cannot be read.
	badMarker bool
}

// add adds a finding. The format and its arguments make the message.
func (i *inspection) add(name string, severity Severity, hint, format string, args ...any) {
	i.findings = append(i.findings, Finding{
		Category: i.category, Name: name, Severity: severity,
		Message: spelling.PlainYAML(fmt.Sprintf(format, args...)), Hint: hint,
	})
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
		return nil, err
	}
	i.agents = agents
	i.workspace()
	readers := slices.DeleteFunc(slices.Clone(agents), func(agent schema.AgentName) bool { return agent == mailbox.Postmaster })
	for _, agent := range readers {
		i.inbox(ctx, agent)
		i.autonomy(agent)
	}
	i.trust()
	i.mailboxes()
	i.delivery(ctx)
	for _, agent := range agents {
		i.deadLetters(agent)
	}
	i.contracts(ctx)
	i.git(ctx)
	return i.findings, context.Cause(ctx)
}

// Repair completes or sweeps interrupted deliveries, and sweeps temporary files. It returns a line for each repair, and the findings of an
// inspection afterwards, which include one about a repair that failed.
func Repair(ctx context.Context, w *mailbox.Workspace, options Options) (fixed []string, left []Finding, err error) {
	recovered, failed := w.Recover(ctx)
	fixed = []string{}
	for _, path := range recovered.Published {
		fixed = append(fixed, "delivered "+path)
	}
	swept, sweepErr := mailbox.Sweep(ctx, w, false)
	failed = errors.Join(failed, sweepErr)
	for _, path := range append(recovered.Swept, swept...) {
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

// initHint is the hint for a missing workspace.json.
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

// autonomy checks the parts of an agent's config.yaml that oacp reads.
func (i *inspection) autonomy(agent schema.AgentName) {
	i.category = categoryAutonomy
	name := string(agent) + "/" + project.ConfigName
	mode, err := i.Autonomy(i.w, agent)
	refused, isRefused := errors.AsType[*settings.NotAllowedError](err)
	switch {
	case err != nil && i.badMarker: // workspace.json is to blame
		return
	case err != nil && !isRefused:
		i.add(name, SeverityError, "oacp run does not start until that is fixed", "%v", err)
		return
	case project.IsPerson(i.w, agent):
		i.add(name, SeverityOK, "", "%s is a person: oacp run does not act for her", agent)
	case mode.Holds():
		i.add(name, SeverityOK, "", "oacp run holds all messages for a person")
	case isRefused:
		i.add(name, SeveritySkipped, "", "oacp run does not start without flags until %s is allowed", refused.File)
	default:
		i.add(name, SeverityOK, "", "oacp run gives turns")
	}
	if err := i.Notify(i.w, agent); err != nil {
		i.add(name, SeverityWarning, "correct notify in "+project.ConfigPath(agent), "nobody is told about mail to %s: %v", agent, err)
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

// Group returns the category with the name, and adds one at the end if there is none.
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

// Add adds findings to their categories.
func (r *Report) Add(findings ...Finding) {
	for _, f := range findings {
		r.HasErrors = r.HasErrors || f.Severity == SeverityError
		c := r.Group(f.Category)
		c.Results = append(c.Results, f)
		c.Worst = ascending[max(slices.Index(ascending, c.Worst), slices.Index(ascending, f.Severity))]
	}
}
