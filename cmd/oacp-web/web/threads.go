package web

import (
	"context"
	"slices"
	"sync"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// threads knows which files belong to a conversation, so that a page does not read 100,000 others. A name stands for the
// same message in every box. What threads says is a hint: the files themselves say what is in a conversation.
type threads struct {
	boxes *boxes
	mutex sync.Mutex
	// known has the relations of the messages in all files that were read, and lists the names of those that have a
	// message's id, name it as their parent, or have a conversation's id.
	known map[string]relation
	lists map[string][]string
	// seen are the lists of names that are read.
	seen map[box]*listed
}

// A relation says what connects a message with others.
type relation struct{ id, parent, conversation string }

// update reads the files that are new.
func (t *threads) update(ctx context.Context) error {
	agents, err := t.boxes.w.Agents()
	if err != nil {
		return err
	}
	if t.known == nil {
		t.known, t.lists, t.seen = make(map[string]relation), make(map[string][]string), make(map[box]*listed)
	}
	for _, name := range []mailbox.Box{mailbox.Outbox, mailbox.Inbox, mailbox.Archive, mailbox.DeadLetters} {
		for _, agent := range agents {
			l, err := t.boxes.list(agent, name)
			if err == nil && l != t.seen[box{agent, name}] {
				err = t.add(ctx, box{agent, name}, l)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// add reads the new files of a box.
func (t *threads) add(ctx context.Context, in box, l *listed) error {
	unknown := make(map[string]bool)
	for _, file := range l.names {
		if _, ok := t.known[file]; !ok {
			unknown[file] = true
		}
	}
	if len(unknown) > 0 {
		var mutex sync.Mutex
		_, err := t.boxes.w.ListNamed(ctx, in.agent, in.name, func(file string) bool { return unknown[file] }, func(e *mailbox.Entry) bool {
			if e.Message != nil {
				mutex.Lock()
				defer mutex.Unlock()
				t.put(e.Name, relation{string(e.Message.ID), string(e.Message.ParentID), string(conversation.Of(e.Message))})
			}
			return false
		})
		if err != nil {
			return err
		}
	}
	t.seen[in] = l
	return nil
}

func (t *threads) put(file string, r relation) {
	t.known[file] = r
	for _, key := range r.keys() {
		t.lists[key] = append(t.lists[key], file)
	}
}

// keys returns the ids that connect the message, each once.
func (r relation) keys() (keys []string) {
	for _, key := range []string{r.id, r.parent, r.conversation} {
		if key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// first returns the id of the oldest message in the conversation of a message, empty if no file has it.
func (t *threads) first(ctx context.Context, id schema.ID) (schema.ID, error) {
	names, err := t.of(ctx, id)
	if len(names) == 0 {
		return "", err
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return schema.ID(t.known[slices.MinFunc(names, func(a, b string) int { return newestFirst(b, a) })].id), err
}

// of returns the names of the files in the conversation of a message.
func (t *threads) of(ctx context.Context, id schema.ID) (names []string, err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err := t.update(ctx); err != nil {
		return nil, err
	}
	followed, found := map[string]bool{}, map[string]bool{}
	for open := []string{string(id)}; len(open) > 0; {
		key := open[len(open)-1]
		open = open[:len(open)-1]
		if followed[key] {
			continue
		}
		followed[key] = true
		for _, file := range t.lists[key] {
			if !found[file] {
				found[file] = true
				names = append(names, file)
				open = append(open, t.known[file].keys()...)
			}
		}
	}
	return names, nil
}
