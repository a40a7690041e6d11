package main

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/gitmail"
)

// A syncPrinter prints what sync did.
type syncPrinter struct {
	o        *syncOptions
	s        *command.Streams
	remote   command.RemoteState
	answer   syncAnswer // what all answers have in common
	began    bool       // something was printed
	problems string     // the last warnings about problems
}

// syncAnswer is what sync did, as JSON.
type syncAnswer struct {
	Workspace string           `json:"workspace"`
	Remote    string           `json:"remote,omitempty"`
	Ref       string           `json:"ref"`
	DryRun    bool             `json:"dry_run"`
	In        int              `json:"in"`
	Out       int              `json:"out"`
	Changes   []gitmail.Change `json:"changes"`
	Problems  []syncProblem    `json:"problems,omitempty"`
	Commit    string           `json:"commit,omitempty"`
	// Whole says that the remote had no branch, and gets all mail.
	Whole bool `json:"whole,omitempty"`
	// Recovered says that the sync before this one failed.
	Recovered bool `json:"recovered,omitempty"`
	// Error says why the sync ended before all was done.
	Error string `json:"error,omitempty"`
	Code  string `json:"code,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

type syncProblem struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

func newSyncPrinter(o *syncOptions, w *mailbox.Workspace, settings gitmail.Settings, s *command.Streams) *syncPrinter {
	name := settings.Name()
	return &syncPrinter{
		o: o, s: s, remote: command.RemoteState{Name: name},
		answer: syncAnswer{Workspace: w.Dir(), Remote: name, Ref: settings.Ref, DryRun: o.dryRun},
	}
}

// news prints what one of several syncs did, if it did anything new. It prints a failure only once while
// the remote keeps failing.
func (p *syncPrinter) news(result gitmail.Result, err error) error {
	changed := p.remote.Observe(err, p.s)
	if err == nil && (!p.began || result.Whole || changed && p.o.json) || len(result.Changes) > 0 {
		p.answer.Recovered = changed && err == nil
		if err := p.write(result, p.answer, err == nil); err != nil {
			return err
		}
	}
	p.warn(result.Problems)
	if err == nil || !changed || !p.o.json {
		return p.s.Out.Flush()
	}
	f := failure.Of(err)
	if err := command.WriteJSONLine(p.s.Out, map[string]string{"error": f.Message(), "code": f.Code, "hint": f.Hint}); err != nil {
		return err
	}
	return p.s.Out.Flush()
}

// print prints what the only sync did before it ended, perhaps with an error, and returns the error unless
// it is a part of the JSON.
func (p *syncPrinter) print(result gitmail.Result, err error) error {
	answer := p.answer
	if err != nil && p.o.json {
		f := failure.Of(err)
		answer.Error, answer.Code, answer.Hint = f.Message(), f.Code, f.Hint
		return cmp.Or(p.write(result, answer, false), error(&failure.StatusError{Status: f.Exit}))
	}
	return errors.Join(err, p.write(result, answer, err == nil))
}

// write writes an answer, completed with what a sync did.
func (p *syncPrinter) write(result gitmail.Result, answer syncAnswer, done bool) (err error) {
	p.began = true
	p.warn(result.Problems)
	answer.Commit, answer.Changes, answer.Whole = result.Commit, append([]gitmail.Change{}, result.Changes...), result.Whole
	for _, c := range result.Changes {
		if c.Direction == gitmail.In {
			answer.In++
		} else {
			answer.Out++
		}
	}
	for _, problem := range result.Problems {
		answer.Problems = append(answer.Problems, syncProblem{problem.Path, failure.OneLine(problem.Err.Error())})
	}
	switch {
	case p.o.json && p.o.interval > 0:
		err = command.WriteJSONLine(p.s.Out, answer)
	case p.o.json:
		err = command.WriteJSON(p.s.Out, answer)
	default:
		for _, c := range result.Changes {
			fmt.Fprintln(p.s.Out, changeLine(c))
		}
		_, err = fmt.Fprintln(p.s.Out, answer.summary(done))
	}
	if err != nil {
		return err
	}
	if err := p.s.Out.Flush(); err != nil {
		return err
	}
	switch {
	case p.o.json:
	case answer.Remote == "":
		p.s.Note("the workspace has no remote; oacp init --git --remote NAME-OR-URL adds one")
	case answer.Whole && answer.DryRun:
		p.s.Note("the remote does not have the branch: a sync sends all of its history")
	case answer.Whole && done:
		p.s.Note("the remote did not have the branch: all of its history was sent")
	}
	return nil
}

// summary says in one line what was done. Without done, the sync ended before all was.
func (a *syncAnswer) summary(done bool) string {
	count := fmt.Sprintf("%d in, %d out", a.In, a.Out)
	if a.In+a.Out == 0 {
		count = "nothing new"
	}
	switch {
	case a.DryRun && (a.In+a.Out > 0 || a.Whole):
		return fmt.Sprintf("%d would come in, %d would go out; nothing is changed", a.In, a.Out)
	case a.Remote == "" && a.Out > 0:
		return fmt.Sprintf("%d committed", a.Out)
	case a.Remote == "":
		return count
	}
	if !done {
		return count + "; not in step with " + visible.Line(a.Remote)
	}
	return count + "; in step with " + visible.Line(a.Remote)
}

// changeLine describes one change, as the history of the branch does.
func changeLine(c gitmail.Change) string {
	id := ""
	if c.ID != "" {
		id = visible.Line(c.ID.Short()) + "  "
	}
	return fmt.Sprintf("%-3s  %s%s", c.Direction, id, visible.Line(c.String()))
}

const (
	// mostExamples is how many paths with the same problem are named.
	mostExamples = 3
	// mostReasons is how many problems are.
	mostReasons = 10
)

// warn says which paths were passed over. It does not repeat itself.
func (p *syncPrinter) warn(problems []gitmail.Problem) {
	lines := passedOver(problems)
	if text := strings.Join(lines, "\n"); text != p.problems {
		p.problems = text
		for _, line := range lines {
			p.s.Warn(line)
		}
	}
}

// passedOver names the paths of problems: those with the same problem in one line.
func passedOver(problems []gitmail.Problem) (lines []string) {
	var reasons []string
	paths := make(map[string][]string)
	for _, problem := range problems {
		reason := strings.TrimPrefix(failure.OneLine(problem.Err.Error()), path.Base(problem.Path)+": ")
		if paths[reason] == nil {
			reasons = append(reasons, reason)
		}
		paths[reason] = append(paths[reason], problem.Path)
	}
	for i, reason := range reasons {
		if i == mostReasons {
			lines = append(lines, fmt.Sprintf("passed over: paths for %d more reasons", len(reasons)-i))
			break
		}
		found := paths[reason]
		line := strings.Join(found[:min(len(found), mostExamples)], ", ")
		if len(found) > mostExamples {
			line = fmt.Sprintf("%d paths such as %s", len(found), line)
		}
		lines = append(lines, "passed over: "+line+": "+reason)
	}
	return lines
}

// squashed prints what --squash did.
func (p *syncPrinter) squashed(done gitmail.Squashed) error {
	text := fmt.Sprintf("commits: %d before, %d now", done.Before, done.After)
	if done.Before == done.After {
		text = fmt.Sprintf("commits: %d, nothing to squash", done.Before)
	}
	return p.s.Answer(p.o.json, map[string]any{"commits_before": done.Before, "commits": done.After, "commit": done.Commit},
		func() { fmt.Fprintln(p.s.Out, text) })
}
