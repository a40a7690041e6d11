package change

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// committers lists for agents the e-mail addresses of those who may commit their messages. Anyone may commit for an
// unlisted agent; callers check that first.
type committers map[schema.AgentName][]string

// allows reports whether the address may commit for the agent.
func (c committers) allows(agent schema.AgentName, address string) bool {
	return slices.ContainsFunc(c[agent], func(listed string) bool { return strings.EqualFold(strings.TrimSpace(listed), address) })
}

// An act is a change of a file by a person, in a commit or, if that is empty, in the index.
type act struct{ commit, address string }

// checkCommitters checks that those who add or edit a message may commit for its sender. It uses the list
// of the base, so that nobody adds himself in the same change.
func (c *check) checkCommitters(ctx context.Context) error {
	listed, err := c.committers()
	if err != nil {
		return err
	}
	var concerned []addition
	for _, a := range c.added {
		if _, ok := listed[a.workspace][a.agent]; ok && a.box == schema.Outbox {
			concerned = append(concerned, a)
		}
	}
	if len(concerned) == 0 {
		return nil
	}
	acts, err := c.acts(ctx)
	if err != nil {
		return err
	}
	for _, a := range concerned {
		if len(acts[a.path]) == 0 {
			c.set.Report(a.file, validate.RuleCommitter, "from", "no commit of the change adds the file", "")
		}
		for _, by := range acts[a.path] {
			if listed[a.workspace].allows(a.agent, by.address) {
				continue
			}
			what := "the index would be committed by"
			if by.commit != "" {
				what = "commit " + by.commit[:min(len(by.commit), 12)] + " was committed by"
			}
			c.set.Report(a.file, validate.RuleCommitter, "from", fmt.Sprintf("%s %s, who may not commit messages of %s", what, by.address, a.agent),
				"send it as the agent that is yours, or list the address in "+c.name(a.workspace+schema.MarkerName)+" first")
			break
		}
	}
	return nil
}

// committers reads those of the workspaces in which messages are new.
func (c *check) committers() (map[string]committers, error) {
	listed := make(map[string]committers)
	for _, a := range c.added {
		if _, known := listed[a.workspace]; known || a.box != schema.Outbox {
			continue
		}
		data, there, err := c.marker(a.workspace)
		if err != nil {
			return nil, err
		}
		var fields struct {
			Committers committers `json:"committers"`
		}
		if there {
			if err := json.Unmarshal(data, &fields); err != nil {
				c.set.AddUnreadable(c.name(a.workspace+schema.MarkerName), validate.RuleCommitter, fmt.Sprintf("it cannot be read: %v", err),
					`"committers" maps agents to lists of e-mail addresses`)
			}
		}
		listed[a.workspace] = fields.Committers
	}
	return listed, nil
}

// outboxPattern matches files in outboxes.
const outboxPattern = ":(top,glob)**/" + schema.AgentsName + "/*/" + string(schema.Outbox) + "/**"

// acts lists for each file in an outbox who added or edited it. A merge counts only for files that
// differ from all of its parents.
func (c *check) acts(ctx context.Context) (map[string][]act, error) {
	acts := make(map[string][]act)
	if c.committed {
		// The history of a file that a merge took from one side has the commits of both.
		commits, err := c.git.Run(ctx, "rev-list", "--full-history", c.commits, "--", outboxPattern)
		if err != nil {
			return nil, err
		}
		out, err := c.git.RunInput(ctx, bytes.NewReader(commits), "diff-tree", "--stdin", "--root", "-r", "-c", "--raw", "-z",
			"--format=%H %ce", "--no-renames", "--no-abbrev", "--", outboxPattern)
		if err != nil {
			return nil, err
		}
		addActs(acts, out)
	}
	if !c.indexed {
		return acts, nil
	}
	return acts, c.staged(ctx, acts)
}

// addActs reads what git diff-tree prints with --stdin --raw -z --format: for each commit its id and the address of the
// committer, then for each file a line that begins with one colon, or several for a merge, and its path.
func addActs(acts map[string][]act, out []byte) {
	var by act
	isFile := false
	for field := range git.Records(out) {
		line := strings.TrimSpace(field)
		switch {
		case isFile:
			acts[field] = append(acts[field], by)
			isFile = false
		case strings.HasPrefix(line, ":"):
			isFile = true
		case line != "": // there is an empty one before the files of a merge
			by.commit, by.address, _ = strings.Cut(line, " ")
		}
	}
}

// staged adds files that are staged and not committed, and attributes them to the current committer.
func (c *check) staged(ctx context.Context, acts map[string][]act) error {
	head := "HEAD"
	if !c.committed {
		head = c.base
	}
	out, err := c.git.Run(ctx, "diff-index", "--cached", "--name-only", "-z", "--no-renames", head, "--", outboxPattern)
	if err != nil || len(out) == 0 {
		return err
	}
	identity, err := c.git.Run(ctx, "var", "GIT_COMMITTER_IDENT")
	if err != nil {
		return err
	}
	_, address, _ := strings.Cut(string(identity), "<")
	address, _, _ = strings.Cut(address, ">")
	for name := range git.Records(out) {
		acts[name] = append(acts[name], act{address: address})
	}
	return nil
}
