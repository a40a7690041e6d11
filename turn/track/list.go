package track

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/schema"
)

// Node is a message, and how far it got with each of its recipients.
type Node struct {
	conversation.Node
	Recipients []Progress
	// Snippet is the part of the body that has words of a Query.
	Snippet string
}

// Thread is conversation.Thread with the progress of each message.
func Thread(ctx context.Context, w *mailbox.Workspace, id string) ([]Node, error) {
	thread, err := conversation.Thread(ctx, w, id)
	return withProgress(w, thread, err)
}

// ThreadNamed is conversation.ThreadNamed with the progress of each message.
func ThreadNamed(ctx context.Context, w *mailbox.Workspace, id schema.ID, names []string) ([]Node, error) {
	thread, err := conversation.ThreadNamed(ctx, w, id, names)
	return withProgress(w, thread, err)
}

// withProgress returns what Thread or ThreadNamed has found, with the progress of each message.
func withProgress(w *mailbox.Workspace, thread []conversation.Node, err error) ([]Node, error) {
	if len(thread) == 0 {
		return nil, err
	}
	t := newTracker(w)
	if err := t.note(err); err != nil {
		return nil, err
	}
	for _, m := range thread {
		parent := m.Message.ParentID
		t.replies[parent] = append(t.replies[parent], m.Entry)
	}
	nodes := make([]Node, len(thread))
	for i, m := range thread {
		progress, err := t.track(m.Message, m.Files)
		if err != nil {
			return nil, err
		}
		nodes[i] = Node{Node: m, Recipients: progress}
	}
	return nodes, t.result()
}

// Stage returns the most urgent of the stages of the message, "" if no recipient is known.
func (n Node) Stage() Stage { return n.least().Stage }

// least returns the progress with the recipient whose stage is the most urgent.
func (n Node) least() (least Progress) {
	if len(n.Recipients) > 0 {
		least = slices.MinFunc(n.Recipients, func(a, b Progress) int {
			return a.Stage.urgency() - b.Stage.urgency()
		})
	}
	return least
}

// Said returns, in words that follow Stage, what the recipient with that stage said about its work, and the questions that
// all recipients asked back.
func (n Node) Said(now time.Time) string {
	p := n.least()
	for _, other := range n.Recipients {
		if other.Agent != p.Agent && other.Answer == "" {
			p.Replies = append(slices.Clip(p.Replies), other.Replies...)
		}
	}
	return p.Said(now)
}

// Stages returns the stage of the message with each recipient.
func (n Node) Stages() map[schema.AgentName]Stage {
	stages := make(map[schema.AgentName]Stage, len(n.Recipients))
	for _, p := range n.Recipients {
		stages[p.Agent] = p.Stage
	}
	return stages
}

// Query says which messages to list. The zero value lists all.
type Query struct {
	// Box limits the list to messages with a file in this box.
	Box mailbox.Box
	// Agent limits the list to its mailbox or, without a box, to messages from and to it.
	Agent schema.AgentName
	// Since leaves out messages that were created before. List does not open files with older times in
	// their names.
	Since time.Time
	// From and To are a sender and a recipient; Type is a type.
	From, To schema.AgentName
	Type     schema.Type
	// Subject is a part of the subject, in any case.
	Subject string
	// Text is words that all occur in the subject, the choices or the body, in any case, also as parts of words.
	Text string
	// Conversation and Priority are those of the message. A message without a priority has P2.
	Conversation schema.ConversationID
	Priority     schema.Priority
	// Limit is the largest number of messages, the newest ones; 0 is no limit.
	Limit int
	// words are those of Text.
	words []string
}

// List returns the messages that fit, without their bodies, the newest last. It omits files that are not messages,
// except for a query with a box. With a *mailbox.UnreadableError, List also returns what it could read.
func List(ctx context.Context, w *mailbox.Workspace, q Query) ([]Node, error) {
	listing, err := w.Names(func(agent schema.AgentName, box mailbox.Box) bool {
		return q.Box == "" || box == q.Box && (q.Agent == "" || agent == q.Agent)
	})
	if err != nil {
		return nil, err
	}
	q.words = searchWords(q.Text)
	t := newTracker(w)
	nodes, err := t.list(ctx, q, listing)
	if err != nil {
		return nil, err
	}
	return nodes, t.result()
}

// list is List for the files of a listing. With a limit, it first reads as many of the newest files as are probably
// enough.
func (t *tracker) list(ctx context.Context, q Query, listing *mailbox.Listing) ([]Node, error) {
	since := q.Since.Truncate(time.Minute)
	from := q.newest(listing, since)
	nodes, err := t.read(ctx, q, listing, from)
	if err != nil {
		return nil, err
	}
	// If an older message is among them, because the name of its file has no time, others may be missing.
	cut := len(nodes) - q.Limit
	if from.After(since) && (cut < 0 || nodes[cut].Message.CreatedAt.Time().Before(from)) {
		if nodes, err = t.read(ctx, q, listing, since); err != nil {
			return nil, err
		}
	}
	if q.Limit > 0 {
		nodes = nodes[max(0, len(nodes)-q.Limit):]
	}
	return nodes, t.locate(ctx, q.Box, listing, nodes)
}

// read returns the matching messages, except those in files with an older time in the name. If the query has a box, a
// file that is not a message counts as one whose subject is the file name.
func (t *tracker) read(ctx context.Context, q Query, listing *mailbox.Listing, since time.Time) (nodes []Node, err error) {
	mayFit := func(name string) bool {
		parsed, err := schema.ParseFileName(name)
		return err != nil || !parsed.At.Before(since)
	}
	if q.Box == "" {
		found, err := listing.Search(ctx, mayFit, q.fits)
		return group(found), t.note(err)
	}
	agents := []schema.AgentName{q.Agent}
	if q.Agent == "" {
		if agents, err = t.w.Agents(); err != nil {
			return nil, err
		}
	}
	var found []mailbox.Entry
	for _, agent := range agents {
		entries, err := t.w.ListNamed(ctx, agent, q.Box, mayFit, func(e *mailbox.Entry) bool {
			if e.Message == nil {
				e.Message = &schema.Message{Subject: e.Name}
			}
			return q.fits(e.Message)
		})
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			t.unreadable = &mailbox.UnreadableError{Err: err, Agents: []schema.AgentName{agent}}
		}
		found = append(found, entries...)
	}
	return group(found), nil
}

// newest returns the time since which there are as many files as the limit, or since if there are fewer.
func (q *Query) newest(listing *mailbox.Listing, since time.Time) time.Time {
	if q.Limit == 0 {
		return since
	}
	names := make(map[string]time.Time)
	for _, name := range listing.MessageFiles() {
		if parsed, err := schema.ParseFileName(name); err == nil && !parsed.At.Before(since) {
			names[name] = parsed.At
		}
	}
	times := slices.SortedFunc(maps.Values(names), time.Time.Compare)
	if len(times) <= q.Limit {
		return since
	}
	return times[len(times)-q.Limit]
}

// fits reports whether a message fits. It replaces the body with the snippet, which group moves to the Node.
func (q *Query) fits(m *schema.Message) bool {
	body := m.Body
	m.Body = schema.Value{}
	switch {
	case q.Box == "" && q.Agent != "" && m.From != q.Agent && !m.IsFor(q.Agent),
		q.From != "" && m.From != q.From,
		q.To != "" && !m.IsFor(q.To),
		q.Type != "" && m.Type != q.Type,
		q.Conversation != "" && conversation.Of(m) != q.Conversation,
		q.Priority != "" && cmp.Or(m.Priority, schema.P2) != q.Priority,
		!q.Since.IsZero() && m.CreatedAt.Time().Before(q.Since),
		!strings.Contains(strings.ToLower(m.Subject), strings.ToLower(q.Subject)):
		return false
	}
	if len(q.words) == 0 {
		return true
	}
	snippet, found := search(q.words, strings.Join(append([]string{m.Subject}, m.Marks.Choices...), "\n"), body)
	m.Body.Text = snippet
	return found
}

// group puts the files of each message together, in the order of age. An id alone does not identify
// a message: other tools make short ones, which collide.
func group(files []mailbox.Entry) []Node {
	index := make(map[string]int, len(files))
	var messages []Node
	for _, e := range files {
		snippet := e.Message.Body.Text
		e.Message.Body = schema.Value{}
		key := strings.Join([]string{string(e.Message.ID), string(e.Message.CreatedAt), e.Message.Subject}, "\n")
		if e.Message.ID == "" {
			key = e.Path
		}
		i, known := index[key]
		if !known {
			i = len(messages)
			index[key] = i
			messages = append(messages, Node{Node: conversation.Node{Entry: e}, Snippet: snippet})
		}
		messages[i].Files = append(messages[i].Files, e)
	}
	// Sorting keys is faster than sorting the nodes, which are large.
	type key struct {
		age  schema.Age
		node *Node
	}
	keys := make([]key, len(messages))
	for i := range messages {
		keys[i] = key{messages[i].Message.Age(), &messages[i]}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(a.age.Compare(&b.age), cmp.Compare(a.node.Message.ID, b.node.Message.ID), cmp.Compare(a.node.Path, b.node.Path))
	})
	sorted := make([]Node, len(keys))
	for i, k := range keys {
		sorted[i] = *k.node
	}
	return sorted
}

// InInbox returns how far messages in the inbox of an agent got, by the names of their files, each with the last of its
// answers or else replies. A folder that cannot be read hides only these.
func InInbox(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, entries []mailbox.Entry) (all map[string]Progress, err error) {
	t := newTracker(w)
	replies, _ := conversation.Responses(ctx, w, agent, entries)
	for id, r := range replies {
		t.replies[id] = []mailbox.Entry{{Message: r.Message, Modified: r.Modified}}
		if r.Message.Type.IsRequest() {
			if err = t.readReplies(ctx, nil, r.Message); err != nil {
				return nil, err
			}
		}
	}
	all = make(map[string]Progress, len(entries))
	for i, e := range entries {
		if e.Message == nil {
			continue
		}
		if all[e.Name], err = t.progress(e.Message, agent, entries[i:i+1]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// locate fills in how far the messages got with their recipients or, in a list of inboxes, archives or dead letters,
// with the owners of the files.
func (t *tracker) locate(ctx context.Context, box mailbox.Box, listing *mailbox.Listing, nodes []Node) error {
	var requests []*schema.Message
	copies := make(map[schema.ID][]mailbox.Entry)
	var names []string
	for _, n := range nodes {
		if n.Err == nil && n.Message.Type.IsRequest() {
			requests = append(requests, n.Message)
		}
		for _, e := range n.Files {
			copies[n.Message.ID] = append(copies[n.Message.ID], e)
			names = append(names, e.Name)
		}
	}
	if box == mailbox.Outbox {
		found, err := mailbox.SearchNamed(ctx, t.w, names, func(m *schema.Message) bool { return copies[m.ID] != nil })
		if err := t.note(err); err != nil {
			return err
		}
		for _, e := range found {
			copies[e.Message.ID] = append(copies[e.Message.ID], e)
		}
	}
	if box != "" {
		listing = nil
	}
	if err := t.readReplies(ctx, listing, requests...); err != nil {
		return err
	}
	for i := range nodes {
		n := &nodes[i]
		var agents []schema.AgentName
		if n.Err == nil && (box == "" || box == mailbox.Outbox) {
			agents = slices.Clone(n.Message.To)
		}
		files := n.Files
		if box == mailbox.Outbox {
			files = copies[n.Message.ID]
		}
		for _, e := range n.Files {
			if e.Box != mailbox.Outbox && !slices.Contains(agents, e.Agent) {
				agents = append(agents, e.Agent)
			}
		}
		for _, agent := range agents {
			p, err := t.progress(n.Message, agent, files)
			if err != nil {
				return err
			}
			n.Recipients = append(n.Recipients, p)
		}
	}
	return nil
}
