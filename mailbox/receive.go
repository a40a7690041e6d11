package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// A Received is a message file of another machine.
type Received struct {
	// From is the agent whose outbox the file is in.
	From schema.AgentName
	// Name is the name of the file, the same in every box.
	Name string
	// Data is what the file holds. Its copies have exactly these bytes.
	Data []byte
	// Pending are the recipients whose inboxes get a copy, unless they have it. The others have
	// acknowledged the message.
	Pending []schema.AgentName
}

// RefusedError reports that a received file is not delivered, because of its name or content.
type RefusedError struct {
	Name string
	Err  error
}

func (e *RefusedError) Error() string { return e.Name + ": " + e.Err.Error() }

func (e *RefusedError) Unwrap() error { return e.Err }

// Receive delivers messages that were sent on another machine, exactly as SendAll delivers new ones.
// It makes missing mailboxes. The results are in the order of the files; a receipt has the inboxes that
// got a copy. If the sender's outbox has the message already, the receipt says so, and no inbox gets a
// copy: the recipients without one have acknowledged it.
//
// The error is a *RefusedError if something is wrong with the file, or if another message has its name or
// id. Other errors are those of Send.
func (w *Workspace) Receive(ctx context.Context, files []Received) []Result {
	messages := make([]*outgoing, len(files))
	for i := range files {
		messages[i] = &outgoing{received: &files[i]}
	}
	return deliverAll(ctx, w, messages, nil)
}

// accept does for a received file what compose does for a draft.
func (b *batch) accept(o *outgoing) error {
	w, r := b.w, o.received
	m, err := r.message()
	if err != nil {
		return &RefusedError{r.Name, err}
	}
	agents := append([]schema.AgentName{r.From}, r.Pending...)
	for i, agent := range agents {
		if w.Knows(agent) {
			continue
		}
		known, err := w.Agents()
		if err != nil {
			return err
		}
		// Notices and the answers to them also come from other machines.
		if err := CheckNewAgent(agent, append(known, agents[:i]...)); err != nil && !errors.Is(err, ErrPostmaster) {
			return &RefusedError{r.Name, err}
		}
	}
	o.message, o.name, o.data = m, r.Name, r.Data
	return nil
}

// message checks the file and returns its message.
func (r *Received) message() (*schema.Message, error) {
	name, err := schema.ParseFileName(r.Name)
	switch {
	case err != nil:
		return nil, err
	case len(r.Data) > schema.MaxFileSize:
		return nil, fmt.Errorf("it has %d bytes, want at most %d", len(r.Data), schema.MaxFileSize)
	}
	m, err := validate.Read(r.Data)
	if err != nil {
		return nil, err
	}
	switch {
	case m.From != r.From || name.From != r.From:
		return nil, fmt.Errorf("it is in the outbox of %s, and the message is from %s", r.From, m.From)
	case name.Type != m.Type:
		return nil, fmt.Errorf("it holds a message of type %s", m.Type)
	case !isSameMinute(name.At, m.CreatedAt.Time()):
		return nil, fmt.Errorf("the file name has another time than the message, which was created at %s", m.CreatedAt)
	}
	for _, agent := range r.Pending {
		if !slices.Contains(m.To, agent) {
			return nil, fmt.Errorf("it is not for %s", agent)
		}
	}
	return m, nil
}
