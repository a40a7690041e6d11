package gitmail

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// prune adds an edit that takes the bytes of old messages that were handled or given up out of the tree, and those of
// their outbox copies once nobody has them pending. The states stay, in a list for each day: so a machine that was
// away for long cannot bring a message back, whatever it has and whatever became of the history.
func (e *exchange) prune(p *plan) error {
	if e.o.Prune == nil || e.tip.root == "" {
		return nil
	}
	agents, err := e.tip.folder("agents")
	if err != nil {
		return err
	}
	pending := make(map[string]bool)
	for _, edit := range p.edits {
		for _, f := range edit.write { // what this sync sends
			pending[f.path[strings.LastIndexByte(f.path, '/')+1:]] = true
		}
	}
	for name := range agents {
		inbox, err := e.tip.folder(boxPath(schema.AgentName(name), mailbox.Inbox))
		if err != nil {
			return err
		}
		for message := range inbox {
			pending[message] = true
		}
	}
	old := &edit{Change: Change{Direction: Out, Kind: Pruned}, own: true}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		for _, box := range []mailbox.Box{mailbox.Outbox, mailbox.Archive, mailbox.DeadLetters} {
			if err := e.pruneBox(old, schema.AgentName(name), box, pending); err != nil {
				return err
			}
		}
	}
	if len(old.remove) > 0 {
		p.edits = append(p.edits, old)
	}
	return nil
}

// pruneBox prunes a box of the tip.
func (e *exchange) pruneBox(old *edit, agent schema.AgentName, box mailbox.Box, pending map[string]bool) error {
	days, err := e.tip.folder(boxPath(agent, box))
	if err != nil {
		return err
	}
	for day := range days {
		path := boxPath(agent, box) + "/" + day
		names, err := e.tip.folder(path)
		if err != nil {
			return err
		}
		before, err := e.tip.pruned(path)
		if err != nil {
			return err
		}
		list := maps.Clone(before)
		for name := range names {
			if replica.CheckName(name) != nil || pending[name] || !e.o.Prune(name) {
				continue
			}
			c := replica.Copy{Agent: agent, Name: name}
			epoch, err := e.tip.number(epochPath(c))
			if err != nil {
				return err
			}
			list[name] = max(list[name], epoch)
			old.remove = append(old.remove, path+"/"+name, path+"/"+name+mailbox.ReasonSuffix)
			if box != mailbox.Outbox && epoch > 0 {
				old.remove = append(old.remove, epochPath(c))
			}
			if box != mailbox.Outbox {
				e.result.Pruned++
			}
		}
		if len(list) == len(before) {
			continue
		}
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(list)) {
			text.WriteString(name)
			if list[name] > 0 {
				fmt.Fprintf(&text, " %d", list[name])
			}
			text.WriteByte('\n')
		}
		old.write = append(old.write, file{path: path + "/" + prunedName, data: []byte(text.String())})
	}
	return nil
}
