package setup

import (
	"encoding/json"
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

// How long a program waits for a hook, in seconds. At the end of a session, codex waits for three seconds at most,
// and complains about a longer timeout. It asks its user to review every hook that has changed, so hooks
// must not change between releases.
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

// ours returns the words of the command line if the hook calls oacp hook for the program, and otherwise nil.
func (h hooks) ours(hook json.RawMessage) []string {
	var entry struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(hook, &entry) != nil {
		return nil
	}
	words, err := shellwords.Parse(entry.Command)
	if err != nil || len(words) < 3 || !isOACP(words[0]) || words[1] != "hook" || words[2] != string(h.program) {
		return nil
	}
	return words
}

func isOACP(word string) bool {
	name := filepath.Base(strings.ReplaceAll(word, `\`, "/"))
	return name == "oacp" || name == "oacp.exe"
}

// inGroups returns the edit of an event's groups that changes each hook with e, and removes groups that become empty.
func (e edit) inGroups() edit {
	return edit(func(group json.RawMessage) (json.RawMessage, error) {
		emptied := false
		after, err := edit(func(list json.RawMessage) (json.RawMessage, error) {
			left, err := e.each()(list)
			emptied = list != nil && left == nil
			return left, err
		}).at("hooks")(group)
		if emptied {
			return nil, err
		}
		return after, err
	}).each()
}

// put makes sure that each event has one hook that is ours. An existing one keeps its place, because codex
// identifies the hooks that its user has reviewed by their places.
func (h hooks) put(data []byte) (after []byte, err error) {
	after = data
	for _, event := range events[h.program] {
		wanted, found := entryFor(event, h.command), false
		replace := edit(func(hook json.RawMessage) (json.RawMessage, error) {
			switch {
			case h.ours(hook) == nil:
				return hook, nil
			case found:
				return nil, nil
			}
			found = true
			if sameJSON(hook, wanted) {
				return hook, nil
			}
			return json.RawMessage(encode(wanted)), nil
		}).inGroups()
		after, err = edit(func(groups json.RawMessage) (json.RawMessage, error) {
			changed, err := replace(groups)
			if err != nil || found {
				return changed, err
			}
			all, err := elements(groups)
			return json.RawMessage(encode(append(all, json.RawMessage(encode(hookGroup{[]hookEntry{wanted}}))))), err
		}).at("hooks", event).inFile(after)
		if err != nil {
			return nil, err
		}
	}
	return after, nil
}

// take removes our hooks, including those of events for which put writes none.
func (h hooks) take(data []byte) ([]byte, error) {
	remove := edit(func(hook json.RawMessage) (json.RawMessage, error) {
		if h.ours(hook) != nil {
			return nil, nil
		}
		return hook, nil
	}).inGroups()
	return edit(func(object json.RawMessage) (json.RawMessage, error) {
		all, err := members(object)
		for _, m := range all {
			if err == nil {
				object, err = remove.at(m.name)(object)
			}
		}
		return object, err
	}).at("hooks").inFile(data)
}

// find returns the words of our hooks, by event.
func (h hooks) find(data []byte) (found map[string][]string, err error) {
	found = make(map[string][]string)
	for _, event := range events[h.program] {
		_, err := edit(func(hook json.RawMessage) (json.RawMessage, error) {
			if words := h.ours(hook); words != nil {
				found[event] = words
			}
			return hook, nil
		}).inGroups().at("hooks", event).inFile(data)
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
