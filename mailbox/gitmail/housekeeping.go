package gitmail

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/history"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// listPruned adds what is known of a message whose bytes were pruned to the lists for the tip. own says that no other machine
// has it.
func (e *exchange) listPruned(c replica.Copy, known facts.Set, own bool) {
	e.ownPruned, e.unfolded = e.ownPruned || own, e.unfolded || !own
	if replica.Day(c.Name) < e.horizon && known.Place() != replica.Pending {
		return
	}
	day := schema.BoxPath(c.Agent, prunedBox(c, known)) + "/" + replica.Day(c.Name)
	if e.pruned[day] == nil {
		e.pruned[day] = maps.Clone(e.tip.pruned(day))
	}
	e.pruned[day][c.Name] = e.pruned[day][c.Name].Join(known)
}

// prunedBox returns the box whose lists have a message.
func prunedBox(c replica.Copy, known facts.Set) mailbox.Box {
	switch {
	case c.Sent:
		return mailbox.Outbox
	case known.Place() == replica.Dead:
		return mailbox.DeadLetters
	}
	return mailbox.Archive
}

// prune adds an edit that removes the bytes of old messages that were handled or given up from the tree, and those of
// their outbox copies if no recipient has them pending. Their states stay in a list for each day until the horizon passes it, so
// a machine that was away cannot bring a message back, whatever it has and whatever happened to the history.
func (e *exchange) prune() error {
	change := &edit{Change: history.Change{Direction: history.Out, Kind: history.Pruned}}
	e.result.Pruned, e.result.Forgotten = 0, 0 // of an earlier round
	if e.o.Prune != nil {
		change.remove = e.pruneTip()
	}
	change.remove = append(change.remove, e.forgotten...)
	if tip := horizonIn(e.tip, e.now); tip < e.horizon {
		change.write = append(change.write, git.File{Path: horizonName, Data: []byte(e.horizon + "\n")})
		other := slices.ContainsFunc(e.others, func(v *view) bool { return horizonIn(v, e.now) == e.horizon })
		e.ownPruned, e.unfolded = e.ownPruned || !other, e.unfolded || other
		change.remove = append(change.remove, forgetLists(e)...)
	}
	for day, list := range e.pruned {
		said := " " + facts.Done.String()
		if strings.Contains(day, string(mailbox.DeadLetters)) {
			said = " " + facts.GivenUp.String()
		}
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(list)) {
			text.WriteString(strings.TrimSuffix(name+" "+list[name].String(), said) + "\n")
		}
		change.write = append(change.write, git.File{Path: day + "/" + prunedName, Data: []byte(text.String())})
	}
	if len(change.write)+len(change.remove) > 0 {
		change.own = e.ownPruned
		e.edits = append(e.edits, change)
	}
	return e.failed
}

// horizonIn returns the horizon in a tree; empty if there is none. It ignores one in the future.
func horizonIn(v *view, now time.Time) string {
	day := v.text(v.entry(horizonName))
	if at, err := time.Parse(dayLayout, day); err != nil || at.After(now) {
		return ""
	}
	return day
}

// forgetLists returns the lists of the tip from before the horizon, of which nothing is left, and writes the others again.
func forgetLists(e *exchange) (gone []string) {
	for agent := range e.tip.folder("agents") {
		for _, box := range []mailbox.Box{mailbox.Archive, mailbox.DeadLetters, mailbox.Outbox} {
			folder := schema.BoxPath(schema.AgentName(agent), box)
			for day := range e.tip.folder(folder) {
				day := folder + "/" + day
				list := e.tip.entry(day + "/" + prunedName)
				if path.Base(day) >= e.horizon || !list.IsFile() {
					continue
				}
				left := e.tip.pruned(day)
				if box != mailbox.Outbox {
					e.result.Forgotten += 1 + strings.Count(e.tip.text(list), "\n") - len(left)
				}
				if e.pruned[day] == nil && len(left) > 0 {
					e.pruned[day] = left
				} else if e.pruned[day] == nil {
					gone = append(gone, day+"/"+prunedName)
				}
			}
		}
	}
	return gone
}

// pruneTip lists the messages to prune, and returns their files in the tip.
func (e *exchange) pruneTip() (files []string) {
	pending := make(map[string]bool)
	for _, edit := range e.edits {
		for _, f := range edit.write { // what this sync sends
			pending[path.Base(f.Path)] = true
		}
	}
	old := make(map[replica.Copy]bool)
	for name := range e.tip.folder("agents") {
		for c, place := range e.tip.places(schema.AgentName(name), "", nil) {
			if place == replica.Pending && !c.Sent {
				pending[c.Name] = true
			} else if e.o.Prune(c.Name) {
				old[c] = true
			}
		}
	}
	for c := range old {
		if pending[c.Name] {
			continue
		}
		at := e.tip.look(c)
		if c.Sent {
			at.Set = facts.Done
		} else {
			e.result.Pruned++
		}
		e.listPruned(c, at.Set, true)
		files = append(files, at.paths...)
	}
	return files
}

// Squashed says what a squash did.
type Squashed struct {
	// Before and After count the commits of the history. They are equal if there was nothing to do.
	Before, After int
	// Commit is the new tip; empty if there is no history.
	Commit string
}

// squash replaces a history, whose beginning may be missing here, by one commit. The tree stays the same, so no machine
// sends, delivers or acknowledges anything.
func (e *exchange) squash(ctx context.Context, commit string, shallow bool) (string, error) {
	out, err := e.r.git.Run(ctx, "rev-list", "--count", commit)
	if err != nil {
		return "", err
	}
	before, err := strconv.Atoi(strings.TrimSpace(string(out)))
	e.result.Squashed = Squashed{Before: before, After: 1, Commit: commit}
	if err != nil || before == 1 && !shallow {
		return commit, err
	}
	committer, err := e.r.committer(ctx)
	if err != nil {
		return "", err
	}
	v, err := e.view(commit)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d commits until %s\n\nThe last of them was %s.\n\n[skip ci]\n", before, e.now.UTC().Format("2006-01-02"), commit)
	made := git.Commit{Author: committer, Authored: e.now, Committer: committer, Committed: e.now, Text: text}
	e.result.Squashed.Commit, err = e.r.git.CommitTree(ctx, v.root, "", made, e.r.settings.sign)
	e.r.step("rewritten")
	return e.result.Squashed.Commit, err
}
