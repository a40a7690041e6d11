package gitmail

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/mailbox"
)

// bringBack restores boxes that were removed: a missing folder says nothing about its messages. Outboxes
// come first, because they say which messages are known. Then it restores messages whose outbox copies
// were removed.
func (e *exchange) bringBack(ctx context.Context, d *outgoing) error {
	if e.o.DryRun {
		return nil
	}
	for _, box := range boxes {
		for _, agent := range d.agents {
			f := d.folders[mailbox.BoxName(agent, box)]
			if !f.lost {
				continue
			}
			f.setAside()
			before := len(e.late)
			if err := e.bringBackBox(ctx, f); err != nil {
				e.blocked(err)
			} else if len(e.late) == before {
				f.lost = false
			}
		}
	}
	return cmp.Or(e.found(d), e.receiveUnknown(ctx, d))
}

// seenName is an empty file in each box that the tip has, too. A box without it is not the folder that the
// last sync saw: that one was removed, and perhaps made again.
const seenName = ".synced"

// markSeen makes the file in a box. A box that takes no files does without.
func (e *exchange) markSeen(f *folder) {
	_, err := e.r.w.AddFile(f.name()+"/"+seenName, nil)
	f.seen = err == nil
}

// noteLost notes in the cache which boxes were removed. A delivery makes a missing folder again, and a
// folder that is half restored when a sync is killed looks like any other.
func (e *exchange) noteLost() error {
	lost := false
	for name, box := range e.cache.Boxes {
		if !box.Seen {
			continue
		}
		if _, err := e.r.w.Root().Lstat(name + "/" + seenName); errors.Is(err, fs.ErrNotExist) {
			box.Lost, box.Seen, lost = true, false, true
			e.cache.Boxes[name] = box
		}
	}
	if !lost {
		return nil
	}
	return e.writeCache()
}

// found notes in the cache which boxes are no longer lost.
func (e *exchange) found(d *outgoing) error {
	found := false
	for name, box := range e.cache.Boxes {
		if f := d.folders[name]; box.Lost && (f == nil || !f.lost) {
			box.Lost, found = false, true
			e.cache.Boxes[name] = box
		}
	}
	if !found {
		return nil
	}
	return e.writeCache()
}

// bringBackBox makes a box and receives what the tip has in it.
func (e *exchange) bringBackBox(ctx context.Context, f *folder) error {
	if err := e.r.w.MakeFolder(f.name()); err != nil {
		return err
	}
	e.markSeen(f)
	return e.receiveAgain(ctx, []string{treeFolder(f.agent, f.box)}, func(place) bool { return true })
}

// receiveUnknown receives messages again whose outbox copies are missing: without that copy, a message is
// unknown here, and a missing inbox copy is not an acknowledgement.
func (e *exchange) receiveUnknown(ctx context.Context, d *outgoing) error {
	var names []string
	unknown := make(map[string]bool)
	for folder, f := range d.folders {
		if f.there == nil || f.box != mailbox.Outbox && f.box != mailbox.Inbox {
			continue
		}
		names = append(names, folder)
		for name := range f.there {
			if f.box == mailbox.Outbox && f.here[name] == "" && !e.late[place{f.agent, f.box, name}.path()] {
				unknown[name] = true
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(names)
	known := e.result.Problems
	err := e.receiveAgain(ctx, names, func(p place) bool {
		f := d.folders[p.folder()]
		if !unknown[p.name] || !f.there[p.name] || f.here[p.name] != "" {
			return false
		}
		f.here[p.name] = p.name
		return true
	})
	e.result.Problems = known // an earlier sync reported those that are refused
	return err
}

// receiveAgain receives the files of the tip's boxes that are wanted.
func (e *exchange) receiveAgain(ctx context.Context, boxes []string, wanted func(place) bool) (err error) {
	news := &arrivals{messages: make(map[string]*arrival)}
	err = e.list(ctx, true, boxes, func(path, kind, object string) {
		if p, err := parsePath(path); err == nil && kind == "blob" && p.name != keepName && wanted(p) {
			news.add(p, object)
		}
	})
	if err != nil {
		return err
	}
	b, err := e.open(ctx, news)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	known, err := e.receiveMessages(ctx, news, b)
	if err != nil {
		return err
	}
	for _, a := range known {
		for _, agent := range a.pending {
			if err := e.putBack(ctx, a, agent); err != nil {
				return err
			}
		}
	}
	return e.addKept(ctx, news.kept, b)
}
