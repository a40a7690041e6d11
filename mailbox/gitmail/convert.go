package gitmail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// Earlier versions counted epochs: a restore of a message began the next one, and so did adding an agent that was removed.
// Converted, epoch N is the restores, or the incarnations, e1 to eN, so all machines that convert a tree agree. The code below
// reads such trees. A tree is written only in the present form.

// The format of earlier versions, and the files with epochs.
const (
	oldFormat    = "2"
	movedPrefix  = "moved to "
	keepName     = ".gitkeep"
	restoredName = ".restored"
)

// isOld reports whether an earlier version made the tree, which may go on where the mail has moved away.
func (v *view) isOld() bool { return v.text(v.entry(formatName)) == oldFormat || v.moved() != "" }

// epochOf returns the number of an epoch; 0 for another text.
func epochOf(text string) int {
	const most = 1 << 10 // of restores
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}

// restored returns the facts of a message that had this end in an epoch N: the restores are e1 to eN.
func restored(s facts.Set, epoch string) facts.Set {
	result := facts.Known
	for n := range epochOf(epoch) {
		result = result.Restore(facts.ID(fmt.Sprintf("e%d", n+1)))
	}
	for _, f := range s.Facts() {
		result = result.Add(f.Kind)
	}
	return result
}

// converted returns the facts of a message from its place in a tree of an earlier version.
func (v *view) converted(c replica.Copy, p replica.Place, reason string) facts.Set {
	said := plain(p)
	if p == replica.Dead && reason != "" {
		data, err := v.file(reason)
		var why mailbox.DeadLetterReason
		if err == nil && json.Unmarshal(data, &why) == nil && why.RecalledBy != "" {
			said = facts.Of(facts.Fact{Kind: facts.WasRecalled})
		}
	}
	return restored(said, v.text(v.entry(schema.AgentPath(c.Agent, restoredName+"/"+c.Name))))
}

// convertedIncarnations returns the incarnations of an agent in a tree of an earlier version. Each epoch is one, and all before
// the last one were removed.
func (v *view) convertedIncarnations(agent schema.AgentName) (ids, removed []string) {
	lives, gone := v.entry(schema.BoxPath(agent, mailbox.Inbox)+"/"+keepName), v.entry(schema.AgentPath(agent, removedName))
	last := max(epochOf(v.text(lives)), epochOf(v.text(gone)))
	for n := 0; n <= last && (lives.IsFile() || gone.IsFile()); n++ {
		id := fmt.Sprintf("e%d", n)
		ids = append(ids, id)
		if n < last || gone.IsFile() && epochOf(v.text(gone)) == last {
			removed = append(removed, id)
		}
	}
	return ids, removed
}

// moved returns the ref to which the mail of an old branch has moved; empty if it has not.
func (v *view) moved() string {
	ref, ok := strings.CutPrefix(v.text(v.entry(formatName)), movedPrefix)
	if !ok {
		return ""
	}
	return ref
}

// share makes the workspace note what happens to messages from now on, and begins with what the base knows of messages that were
// restored. With a base of an earlier version, it applies the rule of that version once: a file in an earlier place than its base
// was restored here.
func share(e *exchange) error {
	if mailbox.IsShared(e.w.Workspace) || e.o.DryRun {
		return nil
	}
	if e.base.root == "" { // not synced yet
		if err := e.w.TakeOver(); err != nil {
			return err
		}
	}
	agents, err := e.w.Agents()
	if err != nil {
		return err
	}
	marks := make(map[schema.AgentName]map[string]facts.Mark)
	for _, agent := range agents {
		noted := make(map[string]facts.Mark)
		for name := range e.base.folder(schema.AgentPath(agent, factsName)) {
			if s := e.base.look(replica.Copy{Agent: agent, Name: name}).Set; s.Restores() != nil {
				noted[name] = facts.Mark{Facts: s}
			}
		}
		if e.base.old {
			if err := convert(e, agent, noted); err != nil {
				return err
			}
		}
		marks[agent] = noted
	}
	if err := mailbox.Share(e.w.Workspace, marks); err != nil {
		return err
	}
	return e.failed
}

// convert adds what an earlier version knew of the mail of an agent, and gives the agent the incarnations of its epochs.
func convert(e *exchange, agent schema.AgentName, noted map[string]facts.Mark) error {
	files := e.w.Scan(agent, nil)
	for c, was := range e.base.places(agent, "", nil) {
		s, file := e.base.look(c).Set, files.Places[c]
		switch {
		case c.Sent:
		case file != replica.Nowhere && file < was:
			noted[c.Name] = facts.Mark{Facts: s.Restore(facts.NewID()), Placed: file}
		case s.Restores() != nil:
			noted[c.Name] = facts.Mark{Facts: s}
		}
	}
	ids, removed := e.base.convertedIncarnations(agent)
	living := slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(removed, id) })
	if len(living) == 0 {
		return nil
	}
	return mailbox.SetIncarnations(e.w.Workspace, agent, living...)
}

// oldRef is the branch of an earlier version as last fetched, and oldChecked the file whose time says when that was.
const (
	oldRef     = "refs/remotes/oacp/old"
	oldChecked = stateFolder + "/old-branch"
)

// readOld sets e.old to the tree of the branch of an earlier version, unless its mail has moved. Once it has, readOld looks every
// hour whether an earlier version still pushes there, and sets e.late to the tree for reportOld.
func readOld(ctx context.Context, e *exchange) error {
	const often = time.Hour
	e.old, e.late = nil, nil
	info, err := e.w.Root().Lstat(oldChecked)
	if e.r.settings.URL == "" || err == nil && e.now.Sub(info.ModTime()) < often && e.there != "" {
		return nil
	}
	limited, cancel := e.r.overNetwork(ctx)
	defer cancel()
	refs, err := e.r.git.RemoteRefs(limited, remoteName, e.r.settings.Ref)
	if err != nil {
		return e.r.remoteError(err, false)
	}
	v, err := e.view("")
	if there := refs[e.r.settings.Ref]; there != "" {
		if err := e.r.fetchRefs(ctx, nil, "+"+e.r.settings.Ref+":"+oldRef); err != nil {
			return err
		}
		v, err = e.view(there)
	}
	if err != nil {
		return err
	}
	if e.late = v; v.old && v.moved() == "" {
		e.old, e.late = v, nil // until it has moved
	}
	return e.failed
}

// reportOld reports mail that stays on the branch of an earlier version, of which the base knows nothing.
func reportOld(ctx context.Context, e *exchange) error {
	if e.late == nil {
		return nil
	}
	base, err := e.view(e.result.Commit)
	if err != nil {
		return err
	}
	if e.late.moved() == "" && e.late.checkFormat() != nil {
		err := fmt.Errorf("%s %w, or mail of the first versions of oacp", e.r.settings.Ref, ErrForeignBranch)
		e.blocked(failure.WithHint(err, "sync it once with the version before this one, or choose another branch: oacp init --git --branch NAME"))
		return e.failed
	}
	if e.late.moved() != "" {
		out, err := e.r.git.Run(ctx, "log", "-1", "--format=%H", e.late.commit, "--", formatName)
		if err != nil {
			return err
		}
		since := strings.TrimSpace(string(out)) + ".." + e.late.commit
		if out, err = e.r.git.Run(ctx, "diff-tree", "-r", "--name-only", "--no-renames", "-z", since); err != nil {
			return err
		}
		for path := range git.Records(out) {
			if at, err := parsePath(path); err == nil && at.Name != "" && !base.look(at.Copy).Contains(e.late.look(at.Copy).Set) {
				who, _ := e.r.git.Run(ctx, "log", "--format=%cn <%ce>", since)
				people := slices.Compact(slices.Sorted(strings.Lines(string(who))))
				e.blocked(fmt.Errorf("%s: an earlier version of oacp still sends mail there, which does not arrive here: update the machine of %s",
					e.r.settings.Ref, strings.ReplaceAll(strings.TrimSpace(strings.Join(people, "")), "\n", ", ")))
				return e.failed
			}
		}
	}
	if e.o.DryRun || e.failed != nil {
		return e.failed
	}
	return durable.ReplaceFile(e.w.Root(), e.w.Dir(), oldChecked, nil, 0o644)
}

// leaveMarker marks the branch of an earlier version as moved, once its mail is on the remote in the present form. If an earlier
// version has pushed meanwhile, the next sync reads it again.
func leaveMarker(ctx context.Context, e *exchange) error {
	if e.old == nil {
		return nil
	}
	change := &edit{Change: history.Change{Kind: history.Described}, write: []git.File{{Path: formatName, Data: []byte(movedPrefix + e.r.settings.MailRef() + "\n")}}}
	marker, err := e.r.commit(ctx, e.old.commit, e.now, []*edit{change})
	if err != nil {
		return err
	}
	refused, _, err := e.push(ctx, git.Update{Ref: e.r.settings.Ref, From: e.old.commit, To: marker})
	if len(refused) > 0 {
		e.problem(e.r.settings.Ref, errors.New("the mark that its mail has moved could not be pushed; the next sync tries again"))
	}
	return err
}
