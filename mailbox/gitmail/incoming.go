package gitmail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// arrival is a message that the tip has and the base does not, or that is pending in the tip only.
type arrival struct {
	from   schema.AgentName
	name   string
	object string
	// pending are the agents whose inboxes have it in the tip.
	pending []schema.AgentName
	// sent says that the base does not have it in the sender's outbox.
	sent bool
}

// arrivals are what the tip adds to the base.
type arrivals struct {
	agents []schema.AgentName
	// messages are by file name.
	messages map[string]*arrival
	// acknowledged are inbox copies that the tip no longer has.
	acknowledged []place
	// kept are archived messages, dead letters and their reasons, and dropped those that the tip no
	// longer has: the messages were restored.
	kept    []keptFile
	dropped []place
	marker  string
}

type keptFile struct {
	place
	object string
}

// receive brings the workspace to the tip, and makes that the base. If it is interrupted, the base stays,
// and the next sync repeats it.
func (e *exchange) receive(ctx context.Context) error {
	differences, err := e.diff(ctx)
	if err != nil {
		return err
	}
	if differences, err = e.addLate(ctx, differences); err != nil {
		return err
	}
	clear(e.late)
	clear(e.aside)
	e.block = nil
	news := e.judge(differences)
	e.r.step("judged")
	b, err := e.open(ctx, news)
	if err != nil {
		return err
	}
	err = e.apply(ctx, news, b)
	if err = errors.Join(err, b.close()); err != nil || e.o.DryRun {
		return err
	}
	if err := e.noteLate(ctx); err != nil {
		return err
	}
	if err := e.rebase(ctx); err != nil {
		return err
	}
	e.r.step("base")
	return nil
}

// judge sorts the differences of the trees.
func (e *exchange) judge(differences []difference) *arrivals {
	news := &arrivals{messages: make(map[string]*arrival)}
	e.touched = make(map[string]bool)
	unsent := make(map[string]bool)
	for _, d := range differences {
		e.touched[d.path] = true
		if d.path == markerName && d.status == 'A' && d.mode == regular {
			news.marker = d.object
		}
		p, err := parsePath(d.path)
		switch {
		case d.status == 'D' && err != nil, !strings.HasPrefix(d.path, "agents/"):
			continue // users may keep other files in the branch, such as a README
		case err == nil && d.status != 'D' && d.mode != regular:
			err = fmt.Errorf("it is not a regular file: its mode is %s", d.mode)
		case err == nil && d.status == 'M' && p.isReason():
			d.status = 'A' // the message was given up again, for another reason
		case err == nil && d.status == 'M' && p.name != keepName:
			err = errors.New("it was changed after it was published; the workspace keeps what it has")
		}
		if err != nil {
			e.problem(d.path, err)
			continue
		}
		switch d.status {
		case 'A':
			news.add(p, d.object)
		case 'D':
			switch {
			case p.box == mailbox.Outbox:
				unsent[p.name] = true
			case p.box != mailbox.Inbox:
				news.dropped = append(news.dropped, p)
			case p.name != keepName:
				news.acknowledged = append(news.acknowledged, p)
			}
		}
	}
	// A tip that lost the outbox copy was rewound, and says nothing about the message.
	news.acknowledged = slices.DeleteFunc(news.acknowledged, func(p place) bool { return unsent[p.name] })
	slices.Sort(news.agents)
	return news
}

func (e *exchange) problem(path string, err error) {
	e.result.Problems = append(e.result.Problems, Problem{Path: path, Err: err})
}

// add adds a file that the tip adds.
func (news *arrivals) add(p place, object string) {
	if p.name == keepName {
		news.agents = append(news.agents, p.agent)
		return
	}
	if p.box != mailbox.Outbox && p.box != mailbox.Inbox {
		news.kept = append(news.kept, keptFile{p, object})
		return
	}
	a := news.messages[p.name]
	if a == nil {
		parsed, _ := schema.ParseFileName(p.name) // parsePath checked it
		a = &arrival{from: parsed.From, name: p.name, object: object}
		news.messages[p.name] = a
	}
	if p.box == mailbox.Outbox {
		a.object, a.sent = object, true
	} else {
		a.pending = append(a.pending, p.agent)
	}
}

// apply brings the news into the workspace. Acknowledgements come last: by then the files that they refer
// to are there.
func (e *exchange) apply(ctx context.Context, news *arrivals, b *reader) error {
	if err := e.addAgents(ctx, news, b); err != nil {
		return err
	}
	known, err := e.receiveMessages(ctx, news, b)
	if err != nil {
		return err
	}
	e.r.step("arrived")
	if err := e.addKept(ctx, news.kept, b); err != nil {
		return err
	}
	if err := e.acknowledge(ctx, news, known); err != nil {
		return err
	}
	e.r.step("removed")
	if err := e.revive(ctx, news, known); err != nil {
		return err
	}
	e.r.step("revived")
	return nil
}

// open opens the files of the news, and returns nil if there are none.
func (e *exchange) open(ctx context.Context, news *arrivals) (*reader, error) {
	var objects []string
	for _, a := range news.messages {
		objects = append(objects, a.object)
	}
	for _, kept := range news.kept {
		objects = append(objects, kept.object)
	}
	if news.marker != "" {
		objects = append(objects, news.marker)
	}
	if len(objects) == 0 {
		return nil, nil
	}
	sizes, err := e.r.sizes(ctx, objects)
	if err != nil {
		return nil, err
	}
	b, err := e.r.openReader(ctx)
	if err == nil {
		b.sizes = sizes
	}
	return b, err
}

// errRefused says that a file of the tip is not taken.
type errRefused struct{ error }

// take reads a file, if it is one and not too large.
func (r *reader) take(object string) ([]byte, error) {
	size, ok := r.sizes[object]
	switch {
	case !ok:
		return nil, errRefused{errors.New("it is not a file")}
	case size > schema.MaxFileSize:
		return nil, errRefused{fmt.Errorf("%w: %d bytes of at most %d", durable.ErrTooLarge, size, int64(schema.MaxFileSize))}
	}
	return r.read(object)
}

// addAgents makes the mailboxes of new agents, and the description of the workspace.
func (e *exchange) addAgents(ctx context.Context, news *arrivals, b *reader) error {
	w := e.r.w
	known, err := w.Agents()
	if err != nil {
		return err
	}
	for _, agent := range news.agents {
		if w.Knows(agent) {
			continue
		}
		if err := mailbox.CheckNewAgent(agent, known); err != nil {
			e.problem(mailbox.BoxName(agent, mailbox.Inbox), err)
			continue
		}
		err := e.write(func() (err error) {
			for _, box := range []mailbox.Box{mailbox.Inbox, mailbox.Outbox, mailbox.DeadLetters} {
				err = cmp.Or(err, w.MakeFolder(mailbox.BoxName(agent, box)))
			}
			return err
		})
		if err != nil {
			e.blocked(err, place{agent, mailbox.Inbox, keepName})
			continue
		}
		known = append(known, agent)
		e.result.Changes = append(e.result.Changes, Change{Direction: In, Kind: NewAgent, Agent: agent})
	}
	if news.marker == "" {
		return nil
	}
	if _, err := w.Root().Lstat(markerName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := b.take(news.marker)
	if refused, ok := errors.AsType[errRefused](err); ok {
		e.problem(markerName, refused.error)
		return nil
	}
	if err != nil {
		return err
	}
	e.result.Changes = append(e.result.Changes, Change{Direction: In, Kind: Described})
	return e.writeFile(markerName, data)
}

// write calls the function, but not in a dry run.
func (e *exchange) write(do func() error) error {
	if e.o.DryRun {
		return nil
	}
	return do()
}

// writeFile writes a file that is missing, whole or not at all, even if this process is killed.
func (e *exchange) writeFile(name string, data []byte) error {
	return e.write(func() error { return durable.ReplaceFile(e.r.w.Root(), e.r.w.Dir(), name, data, 0o644) })
}

// receiveBatch is how many messages are received at once: their syncs are shared.
const receiveBatch = 200

// receiveMessages delivers the messages that are not here yet, and returns the others: those were here
// before, or the workspace refuses them.
func (e *exchange) receiveMessages(ctx context.Context, news *arrivals, b *reader) (known []*arrival, err error) {
	var files []mailbox.Received
	done := 0
	for _, name := range slices.Sorted(maps.Keys(news.messages)) {
		a := news.messages[name]
		if done++; e.o.Progress != nil {
			e.o.Progress(done, len(news.messages))
		}
		outbox := place{a.from, mailbox.Outbox, name}
		here, err := e.find(outbox)
		if err != nil {
			e.blockedMessage(err, outbox, a.sent, a.pending)
			continue
		}
		if here != "" {
			known = append(known, a)
			continue
		}
		data, err := b.take(a.object)
		if refused, ok := errors.AsType[errRefused](err); ok {
			e.problem(e.pathOf(a.from, name, a.pending), refused.error)
			continue
		}
		if err != nil {
			return nil, err
		}
		if files = append(files, e.addressed(a, data)); len(files) == receiveBatch {
			if err := e.deliver(ctx, files); err != nil {
				return nil, err
			}
			files = files[:0]
		}
	}
	return known, e.deliver(ctx, files)
}

// addressed returns the file of an arrival. Inbox copies for agents to whom it is not addressed are
// problems of the tree.
func (e *exchange) addressed(a *arrival, data []byte) mailbox.Received {
	file := mailbox.Received{From: a.from, Name: a.name, Data: data, Pending: a.pending}
	m, err := validate.Read(data)
	if err != nil {
		return file // Receive says so
	}
	file.Pending = slices.DeleteFunc(slices.Clone(a.pending), func(agent schema.AgentName) bool {
		if m.IsFor(agent) {
			return false
		}
		e.problem(place{agent, mailbox.Inbox, a.name}.path(), fmt.Errorf("the message is not for %s", agent))
		return true
	})
	return file
}

// deliver puts messages into the boxes of the workspace. One that the workspace refuses stays a
// problem of the tree.
func (e *exchange) deliver(ctx context.Context, files []mailbox.Received) error {
	if e.o.DryRun {
		for _, file := range files {
			m, err := validate.Read(file.Data)
			if err != nil {
				e.problem(e.pathOf(file.From, file.Name, file.Pending), err)
				continue
			}
			e.arrived(m)
		}
		return nil
	}
	for i, result := range e.r.w.Receive(ctx, files) {
		switch err := result.Err; {
		case result.Receipt != nil:
			// A copy that an inbox refuses stays staged, and the message is durable with the next sync
			// of its folder: in both cases it is here.
			e.arrived(result.Receipt.Message)
			if queued, ok := errors.AsType[*mailbox.QueuedError](err); ok {
				e.problem(place{queued.Agents[0], mailbox.Inbox, files[i].Name}.file(), queued.Err)
			}
		case isRefusal(err):
			e.problem(e.pathOf(files[i].From, files[i].Name, files[i].Pending), err)
		default:
			e.blockedMessage(err, place{files[i].From, mailbox.Outbox, files[i].Name}, true, files[i].Pending)
		}
	}
	return nil
}

func (e *exchange) arrived(m *schema.Message) {
	c := Change{Direction: In, Kind: Sent, Agent: m.From}
	c.describe(m)
	e.result.Changes = append(e.result.Changes, c)
}

// isRefusal reports whether an error of Receive is about the message, not about the workspace.
func isRefusal(err error) bool {
	var refused *mailbox.RefusedError
	return errors.As(err, &refused)
}
