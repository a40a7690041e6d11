package setup

import (
	"path/filepath"
	"strings"

	"github.com/mattn/go-shellwords"

	"github.com/oacp-go/oacp/live"
)

// events are the events of each program that have a hook.
var events = map[live.Program][]string{
	live.Claude: {live.SessionStart, live.UserPromptSubmit, live.PostToolUse, live.Stop, live.FileChanged, live.SessionEnd},
	live.Codex:  {live.SessionStart, live.UserPromptSubmit, live.PostToolUse, live.Stop, live.SessionEnd},
}

// How long a program waits for a hook, in seconds. Codex waits no longer for the end of a session, and
// complains of more. It asks its user to review hooks that differ in anything, so nothing of a hook
// changes between releases.
const (
	hookTimeout = 30
	wakeTimeout = 600
	endTimeout  = 3
)

// A hookGroup is an element of the list of an event's hooks.
type hookGroup struct {
	Hooks []hookEntry `json:"hooks"`
}

// A hookEntry is one hook. With AsyncRewake, claude does not wait for it, and exit status 2 wakes an
// idle session.
type hookEntry struct {
	Type        string `json:"type"`
	Command     string `json:"command"`
	Timeout     int    `json:"timeout"`
	AsyncRewake bool   `json:"asyncRewake,omitempty"`
}

func entryFor(event, command string) hookEntry {
	entry := hookEntry{Type: "command", Command: command, Timeout: hookTimeout, AsyncRewake: event == live.FileChanged}
	switch event {
	case live.SessionEnd:
		entry.Timeout = endTimeout
	case live.FileChanged:
		entry.Timeout = wakeTimeout
	}
	return entry
}

// hooks is the part of a settings file that lets a program call oacp hook.
type hooks struct {
	program live.Program
	// command is the command line that the program runs.
	command string
}

func (h hooks) name() string { return "hooks" }

// A foundHook is one of our hooks in a file: the at-th of the group-th group of an event.
type foundHook struct {
	event     string
	group, at int
	command   string
	words     []string // of the command line
	// alone reports whether the group has no other hook.
	alone bool
}

// path returns where in the file the hook is.
func (f foundHook) path() []any { return []any{"hooks", f.event, f.group, "hooks", f.at} }

// toRemove returns where in the file the hook is, or a group that has nothing else.
func (f foundHook) toRemove() []any {
	if f.alone {
		return f.path()[:3]
	}
	return f.path()
}

// find returns our hooks of some events in a file, in the order of events.
func (h hooks) find(d *document, events ...string) (all []foundHook) {
	for _, event := range events {
		for group := range d.elements("hooks", event) {
			list := d.elements("hooks", event, group, "hooks")
			for at, hook := range list {
				var entry struct {
					Command any `json:"command"`
				}
				if d.decode(hook, &entry) != nil {
					continue
				}
				command, _ := entry.Command.(string)
				if words, err := shellwords.Parse(command); err == nil && h.isOurs(words) {
					all = append(all, foundHook{event, group, at, command, words, len(list) == 1})
				}
			}
		}
	}
	return all
}

// isOurs reports whether a command line is a call of oacp hook for the program.
func (h hooks) isOurs(words []string) bool {
	return len(words) >= 3 && isOACP(words[0]) && words[1] == "hook" && words[2] == string(h.program)
}

// isOACP reports whether a word names this program.
func isOACP(word string) bool {
	name := filepath.Base(strings.ReplaceAll(word, `\`, "/"))
	return name == "oacp" || name == "oacp.exe"
}

func (h hooks) fill(d *document) error {
	for _, event := range events[h.program] {
		if err := h.fillEvent(d, event); err != nil {
			return err
		}
	}
	return nil
}

// fillEvent makes one hook of an event ours. One that is there stays where it is: codex knows the hooks
// that its user has reviewed by their places.
func (h hooks) fillEvent(d *document, event string) error {
	wanted, ours := entryFor(event, h.command), h.find(d, event)
	if len(ours) == 0 {
		return d.set(hookGroup{Hooks: []hookEntry{wanted}}, "hooks", event, end)
	}
	for ; len(ours) > 1; ours = h.find(d, event) {
		d.remove(ours[len(ours)-1].toRemove()...)
	}
	if v, _ := d.find(ours[0].path()...); !d.equal(v, wanted) {
		return d.set(wanted, ours[0].path()...)
	}
	return nil
}

// ours also finds hooks of events for which setup writes none.
func (h hooks) ours(d *document) ([]any, error) {
	var names []string
	if all, ok := d.find("hooks"); ok {
		for _, event := range d.items(all) {
			names = append(names, event.name)
		}
	}
	if found := h.find(d, names...); len(found) > 0 {
		return found[len(found)-1].toRemove(), nil
	}
	return nil, nil
}
