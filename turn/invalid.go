package turn

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// badFile is a file in the inbox that is no message.
type badFile struct {
	entry mailbox.Entry
	// due is when it is given up, and place where it is among those that wait.
	due   time.Time
	place int
}

// badFiles are those that are known. They are used by the Runner's loop alone.
type badFiles struct {
	named map[string]*badFile
	// waiting are those that nobody works on, the first to be given up first.
	waiting heapOf[*badFile, byDue]
	// unread are those that may be messages, by name: they could not be read.
	unread map[string]mailbox.Entry
}

func newBadFiles() badFiles {
	return badFiles{named: make(map[string]*badFile), unread: make(map[string]mailbox.Entry)}
}

type byDue struct{}

func (byDue) before(a, b *badFile) bool { return a.due.Before(b.due) }
func (byDue) place(b *badFile) *int     { return &b.place }

// add puts a file in, in place of one of the same name, and returns when it is
// given up.
func (f *badFiles) add(e mailbox.Entry) (due time.Time) {
	f.remove(e.Name)
	b := &badFile{entry: e, due: e.Modified.Add(invalidAfter)}
	f.named[e.Name] = b
	f.waiting.push(b)
	return b.due
}

// names returns the names of those that are there still, sorted: those that are
// no messages, and those that could not be read. A watch does not tell when one
// goes.
func (f *badFiles) names() (invalid, unread []string) {
	for name, b := range f.named {
		if isThere(b.entry) {
			invalid = append(invalid, name)
		}
	}
	for name, e := range f.unread {
		if isThere(e) {
			unread = append(unread, name)
		}
	}
	slices.Sort(invalid)
	slices.Sort(unread)
	return invalid, unread
}

func isThere(e mailbox.Entry) bool {
	_, err := os.Lstat(e.Path)
	return !errors.Is(err, fs.ErrNotExist)
}

// remove takes a file out that is no longer there, or is a message now.
func (f *badFiles) remove(name string) {
	delete(f.unread, name)
	if b := f.named[name]; b != nil {
		delete(f.named, name)
		f.waiting.remove(b)
	}
}

// next returns a file that is to be given up now, until it is given back.
func (f *badFiles) next(now time.Time) (b *badFile, ok bool) {
	if f.waiting.Len() == 0 || f.waiting.first().due.After(now) {
		return nil, false
	}
	b = f.waiting.first()
	f.waiting.remove(b)
	return b, true
}

// nextDue returns when the first of those that wait is given up, the zero time
// if none does.
func (f *badFiles) nextDue() time.Time {
	if f.waiting.Len() == 0 {
		return time.Time{}
	}
	return f.waiting.first().due
}

// giveBack takes a file in again that could not be given up, unless another has
// come into its place.
func (f *badFiles) giveBack(b *badFile, settled bool, notBefore time.Time) {
	switch {
	case f.named[b.entry.Name] != b:
	case settled:
		delete(f.named, b.entry.Name)
	default:
		if b.due = b.due.Round(0); notBefore.After(b.due) {
			b.due = notBefore.Round(0)
		}
		f.waiting.push(b)
	}
}

// buryInvalid makes a file that is no message a dead letter. Its sender is
// told if the file says who that is.
func (r *Runner) buryInvalid(ctx context.Context, b *badFile) outcome {
	raw, err := r.workspace.ReadRaw(b.entry)
	var m *schema.Message
	var reason error = err
	if err == nil {
		if _, reason = validate.Read(raw); reason != nil {
			m, _ = validate.Decode(raw) // what of it can be read
		}
	}
	switch {
	case mailbox.IsGone(err), reason == nil:
		return outcome{bad: b, settled: true} // a watch will tell what is there now
	case err != nil:
		raw = []byte(b.entry.Name) // too large to be read
	}
	rec := record{envelope: envelope{File: b.entry.Name, key: key{Fingerprint: fingerprint(raw)}}}
	if m != nil {
		rec.ID, rec.From, rec.Type, rec.Subject = m.ID, m.From, m.Type, m.Subject
	}
	f := dead.about(&rec)
	f.Reason = "the file is no valid message: " + reason.Error()
	f.Send = r.bounce(m, &rec, f.Reason)
	if err := r.journal.append(f, true); err != nil {
		return outcome{bad: b, trouble: err}
	}
	if err := r.carryOut(context.WithoutCancel(ctx), rec.key, &b.entry); err != nil {
		return outcome{bad: b, trouble: err}
	}
	return outcome{bad: b, settled: true, dead: b.entry.Name}
}
