package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// committers says who may commit the messages of an agent: e-mail addresses. An agent that is not
// listed has anybody.
type committers map[schema.AgentName][]string

// allows reports whether the address may commit for the agent.
func (c committers) allows(agent schema.AgentName, address string) bool {
	return slices.ContainsFunc(c[agent], func(listed string) bool { return strings.EqualFold(strings.TrimSpace(listed), address) })
}

// An act is that somebody changed a file, in a commit or, if that is empty, in the index.
type act struct{ commit, address string }

// checkCommitters checks that those who add or edit a message may commit for its sender. Whom the base
// lists counts, so that nobody adds himself in the same change.
func (c *check) checkCommitters(ctx context.Context) error {
	listed, err := c.committers(ctx)
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
func (c *check) committers(ctx context.Context) (map[string]committers, error) {
	listed := make(map[string]committers)
	var workspaces, specs []string
	for _, a := range c.added {
		if _, known := listed[a.workspace]; !known && a.box == schema.Outbox {
			listed[a.workspace] = nil
			workspaces = append(workspaces, a.workspace)
			specs = append(specs, c.base+":"+a.workspace+schema.MarkerName, c.end(a.workspace+schema.MarkerName))
		}
	}
	objects, err := c.objects(ctx, specs)
	if err != nil {
		return nil, err
	}
	var ids, of []string
	for i, workspace := range workspaces {
		for _, o := range objects[2*i : 2*i+2] {
			if o.kind == "blob" {
				ids, of = append(ids, o.id), append(of, workspace)
				break
			}
		}
	}
	blobs := c.openBlobs(ctx, ids)
	for _, workspace := range of {
		data, problem, err := blobs.next()
		if err != nil {
			return nil, errors.Join(err, blobs.close())
		}
		var fields struct {
			Committers committers `json:"committers"`
		}
		if problem == "" {
			if err := json.Unmarshal(data, &fields); err != nil {
				problem = fmt.Sprintf("it cannot be read: %v", err)
			}
		}
		if problem != "" {
			c.set.AddUnreadable(c.name(workspace+schema.MarkerName), validate.RuleCommitter, problem,
				`"committers" maps agents to lists of e-mail addresses`)
		}
		listed[workspace] = fields.Committers
	}
	return listed, blobs.close()
}

// outboxPattern matches files in outboxes.
const outboxPattern = ":(top,glob)**/" + schema.AgentsName + "/*/" + string(schema.Outbox) + "/**"

// acts lists for each file in an outbox who added or edited it. A merge counts only for files that
// differ from all of its parents.
func (c *check) acts(ctx context.Context) (map[string][]act, error) {
	acts := make(map[string][]act)
	addresses := make(map[string]string)
	if c.committed {
		// The history of a file that a merge took from one side has the commits of both.
		out, err := c.git.Run(ctx, "rev-list", "--full-history", "--format=%ce", c.commits, "--", outboxPattern)
		if err != nil {
			return nil, err
		}
		var ids strings.Builder
		lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			id := strings.TrimPrefix(lines[i], "commit ")
			addresses[id] = lines[i+1]
			ids.WriteString(id + "\n")
		}
		out, err = c.git.RunInput(ctx, strings.NewReader(ids.String()), "diff-tree", "--stdin", "--root", "-r", "-c", "--raw", "-z",
			"--no-renames", "--no-abbrev", "--", outboxPattern)
		if err != nil {
			return nil, err
		}
		collect(string(out), func(commit, file string) {
			acts[file] = append(acts[file], act{commit, addresses[commit]})
		})
	}
	if !c.indexed {
		return acts, nil
	}
	return acts, c.staged(ctx, acts)
}

// collect reads what git diff-tree prints with --stdin --raw -z: the id of a commit, then for each file
// a line that begins with one colon, or several for a merge, and its path.
func collect(out string, do func(commit, file string)) {
	commit, isFile := "", false
	for field := range strings.SplitSeq(out, "\x00") {
		switch {
		case isFile:
			do(commit, field)
			isFile = false
		case strings.HasPrefix(field, ":"):
			isFile = true
		default:
			commit = strings.TrimSpace(field)
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
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		acts[name] = append(acts[name], act{address: address})
	}
	return nil
}
