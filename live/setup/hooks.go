package setup

import (
	"path/filepath"
	"strings"

	"github.com/mattn/go-shellwords"
	"github.com/tailscale/hujson"

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
	if event == live.SessionEnd {
		entry.Timeout = endTimeout
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

// isOurs reports whether the command line is a call of oacp hook for the program.
func (h hooks) isOurs(command string) bool {
	words, err := shellwords.Parse(command)
	return err == nil && len(words) >= 3 && isOACP(words[0]) && words[1] == "hook" && words[2] == string(h.program)
}

// isOACP reports whether a word names this program.
func isOACP(word string) bool {
	name := filepath.Base(strings.ReplaceAll(word, `\`, "/"))
	return name == "oacp" || name == "oacp.exe"
}

// ourHook decodes a hook and returns its command line if it is ours.
func (h hooks) ourHook(v *hujson.Value) (command string, ok bool) {
	var entry struct {
		Command any `json:"command"`
	}
	if decode(v, &entry) != nil {
		return "", false
	}
	command, _ = entry.Command.(string)
	return command, h.isOurs(command)
}

// hooksOf returns the hooks of a group, or nil if there are none.
func hooksOf(group *hujson.Value) *hujson.Array {
	object, ok := group.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	list := member(object, "hooks")
	if list == nil {
		return nil
	}
	array, _ := list.Value.(*hujson.Array)
	return array
}

func (h hooks) put(data []byte) ([]byte, error) {
	d, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	for _, event := range events[h.program] {
		list, err := d.array("hooks", event)
		if err != nil {
			return nil, err
		}
		h.putEvent(d, list, event)
	}
	return d.value.Pack(), nil
}

// putEvent makes one hook ours in the list of an event. One that is there stays where it is: codex
// knows the hooks that its user has reviewed by their places.
func (h hooks) putEvent(d *document, list place, event string) {
	array := list.value.Value.(*hujson.Array)
	entry, found := entryFor(event, h.command), 0
	for i := range array.Elements {
		group := &array.Elements[i]
		inner := hooksOf(group)
		if inner == nil {
			continue
		}
		for at := range inner.Elements {
			hook := &inner.Elements[at]
			if _, ours := h.ourHook(hook); !ours {
				continue
			}
			if found++; found == 1 && !equal(hook, entry) {
				in := d.at(group, list.margin+d.style.indent, list.compact)
				in = d.at(member(group.Value.(*hujson.Object), "hooks"), in.margin+d.style.indent, in.compact)
				d.replace(hook, in, entry)
			}
		}
	}
	if found == 0 {
		d.insert(list, "", hookGroup{Hooks: []hookEntry{entry}})
	} else if found > 1 {
		seen := 0
		h.removeFrom(array, func() bool { seen++; return seen > 1 })
	}
}

// removeFrom removes those of our hooks from the list of an event for which remove says so, and the
// groups that are empty then. It reports whether it removed any.
func (h hooks) removeFrom(list *hujson.Array, remove func() bool) (changed bool) {
	removeElements(list, func(group *hujson.Value) bool {
		inner := hooksOf(group)
		if inner == nil || !removeElements(inner, func(hook *hujson.Value) bool {
			_, ours := h.ourHook(hook)
			return ours && remove()
		}) {
			return false
		}
		changed = true
		return len(inner.Elements) == 0
	})
	return changed
}

func (h hooks) take(data []byte) ([]byte, error) {
	d, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	all, err := d.find("hooks")
	if err != nil || all == nil {
		return data, err
	}
	object, ok := all.Value.(*hujson.Object)
	if !ok {
		return data, nil // nothing there is ours
	}
	changed := false
	removeMembers(object, func(_ string, v *hujson.Value) bool {
		list, ok := v.Value.(*hujson.Array)
		removed := ok && h.removeFrom(list, func() bool { return true })
		changed = changed || removed
		return removed && len(list.Elements) == 0
	})
	if !changed {
		return data, nil
	}
	d.prune("hooks")
	return d.bytes(), nil
}

func (h hooks) like(data []byte) part {
	found, err := h.find(data)
	if err != nil || len(found) == 0 {
		return nil
	}
	h.command = found[0].command
	return h
}

// A foundHook is one of our hooks in a file: the at-th of the group-th group of an event.
type foundHook struct {
	event     string
	group, at int
	command   string
}

// find returns our hooks in a file, in the order of events.
func (h hooks) find(data []byte) ([]foundHook, error) {
	d, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	var all []foundHook
	for _, event := range events[h.program] {
		list, err := d.find("hooks", event)
		if err != nil {
			return nil, err
		}
		if list == nil {
			continue
		}
		groups, ok := list.Value.(*hujson.Array)
		if !ok {
			return nil, d.wrongType(list, "hooks."+event, "an array")
		}
		for group := range groups.Elements {
			inner := hooksOf(&groups.Elements[group])
			if inner == nil {
				continue
			}
			for at := range inner.Elements {
				if command, ours := h.ourHook(&inner.Elements[at]); ours {
					all = append(all, foundHook{event, group, at, command})
				}
			}
		}
	}
	return all, nil
}
