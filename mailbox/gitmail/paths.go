package gitmail

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/replica"
	"github.com/oacp-go/oacp/schema"
)

// What a tree holds besides messages.
const (
	// formatName is the file that marks a tree as one of mailboxes, and holds the version of its format.
	formatName = ".oacp-format"
	format     = "3\n"
	// agentsName and removedName are folders of an agent with an empty file for each of its incarnations, and for each of
	// those that were removed. The name of the file is the id.
	agentsName  = ".agents"
	removedName = ".removed"
	// factsName is the folder of files with the facts about messages of which more is known than their folder says.
	factsName = ".facts"
	// prunedName is the file in the folder of a day that lists the messages whose bytes were pruned, with their facts where
	// these are more than the folder says.
	prunedName = ".pruned"
	// horizonName is the file with the horizon, a day such as 20251121. What was known of pruned messages of earlier days is
	// forgotten, unless a restore is left that nobody has ended. The horizon only grows, so machines agree on it.
	horizonName = ".oacp-horizon"
	dayLayout   = "20060102"
)

var errForeign = errors.New("it is not a file of a mailbox")

// treePath returns the path of a message in trees. Boxes that only grow have a folder for each day, because a
// commit rewrites every folder on the path of a changed file.
func treePath(agent schema.AgentName, box mailbox.Box, name string) string {
	if box == mailbox.Inbox {
		return schema.BoxPath(agent, box) + "/" + name
	}
	return schema.BoxPath(agent, box) + "/" + replica.Day(name) + "/" + name
}

// factsPath returns the path of the file that holds the facts about a message.
func factsPath(c replica.Copy) string { return schema.AgentPath(c.Agent, factsName+"/"+c.Name) }

func reasonPath(c replica.Copy) string {
	return treePath(c.Agent, mailbox.DeadLetters, c.Name) + mailbox.ReasonSuffix
}

// A location is a path at which a tree has a message in a place.
type location struct {
	place replica.Place
	path  string
}

// locations returns the paths at which trees may have a message.
func locations(c replica.Copy) (all []location) {
	if c.Sent {
		return []location{{replica.Pending, treePath(c.Agent, mailbox.Outbox, c.Name)}}
	}
	for _, place := range []replica.Place{replica.Pending, replica.Dead, replica.Handled} {
		all = append(all, location{place, treePath(c.Agent, replica.Box(place), c.Name)})
	}
	return all
}

// held is what a tree has of a copy.
type held struct {
	facts.Set
	// object is the object with the bytes, and reason the one with the reason of a dead letter; empty if there is none.
	object, reason string
	// paths are the files.
	paths []string
}

// plain returns the facts that the folder of a place says.
func plain(p replica.Place) facts.Set {
	switch p {
	case replica.Pending:
		return facts.Known
	case replica.Dead:
		return facts.GivenUp
	case replica.Handled:
		return facts.Done
	}
	return facts.Set{}
}

// look returns what a tree has of a message.
func (v *view) look(c replica.Copy) (h held) {
	var said facts.Set // by the folders
	for _, location := range locations(c) {
		at := v.entry(location.path)
		if !at.IsFile() {
			continue
		}
		h.object, h.paths = at.Object, append(h.paths, location.path)
		if location.place == replica.Dead {
			if reason := v.entry(reasonPath(c)); reason.IsFile() {
				h.reason, h.paths = reason.Object, append(h.paths, reasonPath(c))
			}
		}
		if v.old {
			said = said.Join(v.converted(c, location.place, h.reason))
		} else {
			said = said.Join(plain(location.place))
		}
	}
	if at := v.entry(factsPath(c)); at.IsFile() && !c.Sent {
		if known, err := facts.Parse(v.text(at)); err == nil {
			said, h.paths = known, append(h.paths, factsPath(c))
		}
	}
	h.Set = said
	for _, place := range []replica.Place{replica.Dead, replica.Handled} {
		h.Set = h.Join(v.pruned(schema.BoxPath(c.Agent, c.Box(place)) + "/" + replica.Day(c.Name))[c.Name])
	}
	return h
}

// pruned returns the messages whose bytes were pruned from the folder of a day, with their facts. It ignores invalid lines, and
// what is forgotten.
func (v *view) pruned(day string) map[string]facts.Set {
	list, ok := v.lists[day]
	if ok {
		return list
	}
	list = make(map[string]facts.Set)
	said := facts.Done // also of an outbox
	if path.Base(path.Dir(day)) == string(mailbox.DeadLetters) {
		said = facts.GivenUp
	}
	for line := range strings.Lines(v.text(v.entry(day + "/" + prunedName))) {
		name, rest, more := strings.Cut(strings.TrimSpace(line), " ")
		known, err := said, error(nil)
		if more && v.old {
			known = restored(said, rest)
		} else if more {
			known, err = facts.Parse(rest)
		}
		forgotten := path.Base(day) < v.horizon && known.Place() != replica.Pending
		if err == nil && (replica.Copy{Name: name}).Check() == nil && !forgotten {
			list[name] = known
		}
	}
	v.lists[day] = list
	return list
}

// places returns the places of the files of the messages of an agent, from the day since on, without days of boxes for which
// skip is true.
func (v *view) places(agent schema.AgentName, since string, skip func(mailbox.Box, string) bool) map[replica.Copy]replica.Place {
	places := make(map[replica.Copy]replica.Place)
	for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.DeadLetters, mailbox.Archive, mailbox.Outbox} {
		days := map[string]entry{"": {}}
		if box != mailbox.Inbox {
			days = v.folder(schema.BoxPath(agent, box))
		}
		for day := range days {
			if day != "" && (day < since || skip != nil && skip(box, day)) {
				continue
			}
			for name, at := range v.folder(path.Join(schema.BoxPath(agent, box), day)) {
				if day == "" && skip != nil && skip(box, replica.DayOf(name)) {
					continue
				}
				c := replica.Copy{Agent: agent, Name: name, Sent: box == mailbox.Outbox}
				if at.IsFile() && c.Check() == nil && (day == "" || replica.Day(name) == day) {
					places[c] = max(places[c], replica.PlaceOf(box))
				}
			}
		}
	}
	return places
}

// checkFormat returns an error if the tree does not hold mailboxes, or holds mailboxes of another version.
func (v *view) checkFormat() error {
	marked, top := v.entry(formatName), v.tree(git.Folder(v.root))
	foreign := len(top) > 1 || len(top) == 1 && !top[schema.MarkerName].IsFile()
	switch found := v.text(marked); {
	case v.failed != nil:
		return v.failed
	case marked.IsFile() && found != strings.TrimSpace(format):
		return fmt.Errorf("%w: its format is %.20q, and this program knows that of %.1s", ErrForeignBranch, found, format)
	case !marked.IsFile() && foreign:
		return ErrForeignBranch
	}
	return nil
}

// incarnations returns the ids of the incarnations of an agent that a tree has, and of those that were removed.
func (v *view) incarnations(agent schema.AgentName) (ids, removed []string) {
	if v.old {
		return v.convertedIncarnations(agent)
	}
	list := func(name string) (ids []string) {
		for id, at := range v.folder(schema.AgentPath(agent, name)) {
			if at.IsFile() && facts.IsID(id) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	return list(agentsName), list(removedName)
}

// lives reports whether a tree has an incarnation of an agent that was not removed.
func (v *view) lives(agent schema.AgentName) bool {
	ids, removed := v.incarnations(agent)
	return slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(removed, id) })
}

// A place is what the path of a file in a tree means.
type place struct {
	// Copy is the copy that the file belongs to. It has no name if the file belongs to none.
	replica.Copy
	// message says that the file holds the message, and list that it is a list of pruned messages.
	message, list bool
}

// parsePath returns an error for a path that no sync writes.
func parsePath(path string) (p place, err error) {
	parts := strings.Split(path, "/")
	switch {
	case path == schema.MarkerName, path == formatName:
		return p, nil
	case len(parts) < 3 || parts[0] != "agents":
		return p, errForeign
	case !schema.AgentName(parts[1]).Valid():
		return p, fmt.Errorf("%.100q is not an agent name", parts[1])
	}
	name := parts[len(parts)-1]
	p.Agent, p.Sent, p.list = schema.AgentName(parts[1]), parts[2] == string(mailbox.Outbox), name == prunedName
	if p.list || len(parts) == 4 && (parts[2] == agentsName || parts[2] == removedName) && facts.IsID(name) {
		return p, nil
	}
	p.Name = strings.TrimSuffix(name, mailbox.ReasonSuffix)
	if err := p.Check(); err != nil {
		return p, err
	}
	p.message = slices.ContainsFunc(locations(p.Copy), func(l location) bool { return l.path == path })
	if !p.message && path != factsPath(p.Copy) && path != reasonPath(p.Copy) {
		return p, errForeign
	}
	return p, nil
}
