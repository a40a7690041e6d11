package mailbox

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/facts"
	"github.com/oacp-go/oacp/schema"
)

// RemovedFolder holds the folders of removed agents, and their mail.
const RemovedFolder = schema.StateName + "/removed"

// incarnations is the folder of an agent with an empty file for each of its incarnations, whose name is the id. An agent that
// is removed and added again is another incarnation. Two machines may add one agent at once, so there may be several.
const incarnations = ".agents"

// Incarnations returns the ids of the incarnations of an agent that has a folder here, and of those that were removed here.
func Incarnations(w *Workspace, agent schema.AgentName) (here, removed []string, err error) {
	here, err = listIDs(w, schema.AgentPath(agent, incarnations))
	if err == nil {
		removed, err = listIDs(w, goneFolder(agent))
	}
	return here, removed, err
}

func goneFolder(agent schema.AgentName) string { return MarksFolder + "/" + string(agent) + "/removed" }

func listIDs(w *Workspace, folder string) ([]string, error) {
	names, err := durable.ListFolder(w.root, w.dir, folder)
	return slices.DeleteFunc(names, func(name string) bool { return !facts.IsID(name) }), ignoreMissing(err)
}

// SetIncarnations makes the ids those of the incarnations of an agent here.
func SetIncarnations(w *Workspace, agent schema.AgentName, ids ...string) error {
	here, _, err := Incarnations(w, agent)
	if err != nil || slices.Equal(here, ids) {
		return err
	}
	folder := schema.AgentPath(agent, incarnations)
	if err := w.MakeFolder(folder); err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := w.AddFile(path.Join(folder, id), nil); err != nil {
			return err
		}
	}
	for _, id := range here {
		if !slices.Contains(ids, id) {
			err = errors.Join(err, ignoreMissing(w.root.Remove(path.Join(folder, id))))
		}
	}
	return err
}

// BeginIncarnation makes an agent that a user adds a new one, even if the other machines of a workspace removed one of its name.
func BeginIncarnation(w *Workspace, agent schema.AgentName) error {
	if _, plain := w.root.Lstat(schema.StateName + "/git"); plain != nil {
		return nil // the first sync does it
	}
	here, _, err := Incarnations(w, agent)
	if err != nil || len(here) > 0 {
		return err
	}
	return SetIncarnations(w, agent, string(facts.NewID()))
}

// RemoveAgent moves the folder of an agent to RemovedFolder. In a shared workspace, it first notes that the agent and its
// pending mail are removed, so that the next sync tells the other machines.
func RemoveAgent(ctx context.Context, w *Workspace, agent schema.AgentName) error {
	if IsShared(w) {
		pending, err := w.Inbox(ctx, agent)
		if err == nil {
			err = noteEnd(w, agent, facts.WasRemoved, pending...)
		}
		if err != nil {
			return err
		}
		here, _, err := Incarnations(w, agent)
		if err == nil && len(here) > 0 {
			err = w.MakeStateFolder(goneFolder(agent))
		}
		for _, id := range here {
			if err == nil {
				_, err = w.AddFile(path.Join(goneFolder(agent), id), nil)
			}
		}
		if err != nil {
			return err
		}
	}
	return SetAside(w, agent)
}

// wasRemoved reports whether an agent of this name was removed here.
func wasRemoved(w *Workspace, agent schema.AgentName) bool {
	names, _ := durable.ListFolder(w.root, w.dir, RemovedFolder) // it only makes a hint better
	return slices.ContainsFunc(names, func(name string) bool {
		of, suffix, ok := cutRemoved(name)
		return ok && of == agent && suffix != asideMail
	})
}

// FindToRestore is Find, but if the workspace has no such message, it looks for one in the mail of removed agents. Such an
// entry counts as a copy in the outbox of the sender. It returns no *UnreadableError: Restore fails if it needs such a folder.
func FindToRestore(ctx context.Context, w *Workspace, id string) ([]Entry, error) {
	found, err := w.Find(ctx, id)
	_, err = SplitUnreadable(err)
	if _, missing := errors.AsType[*NotFoundError](err); !missing {
		return found, err
	}
	removed, findErr := findRemoved(w, id)
	for _, r := range removed {
		found = append(found, r.source)
	}
	switch ids := idsOf(found); {
	case findErr != nil:
		return nil, findErr
	case len(ids) > 1:
		return nil, &AmbiguousError{Prefix: id, Matches: ids}
	case len(ids) == 1:
		return found, nil
	}
	return nil, err
}

// SetAside moves the folder of an agent to RemovedFolder.
func SetAside(w *Workspace, agent schema.AgentName) (err error) {
	to, err := w.OpenStateFolder(RemovedFolder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	from, err := durable.OpenDir(w.root, w.dir, schema.AgentsName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := w.files.Publish(from, string(agent), to, string(agent)+"-"+w.now().UTC().Format(removedLayout), true); err != nil {
		return fmt.Errorf("removing agent %s: %w", agent, err)
	}
	return errors.Join(w.files.SyncDir(to), w.files.SyncDir(from))
}
