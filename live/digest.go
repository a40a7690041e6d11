package live

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn/track"
)

// Budgets of a digest in tokens, as Tokens estimates them. Every byte counts as a quarter of a token
// or more, so a text within maxBudget has at most 10,000 characters, and 10,000 bytes.
const (
	defaultBudget = 1500
	minBudget     = 200
	maxBudget     = 2500
)

// item is a file in the inbox that a digest names.
type item struct {
	// Message is valid if Err is nil. Otherwise it is what could be read, or nil.
	Message *schema.Message
	// File is the name of the message's file, and Path its path.
	File, Path string
	Err        error
	// Arrived is when the file was written.
	Arrived time.Time
	// Signature is the result of checking the signature; empty if nobody checks it.
	Signature signing.Verdict
}

// digestOptions say what a digest contains besides mail, and how long it may be.
type digestOptions struct {
	Agent   schema.AgentName
	Project string
	// Greeting makes the digest begin with who the agent is and how it uses its mailbox.
	Greeting bool
	// Owed are the other requests that wait for the agent's answer, the oldest first.
	Owed []track.OpenRequest
	// Budget is the most that the text may cost, from minBudget to maxBudget tokens. Zero means
	// defaultBudget.
	Budget int
	// Seen is how many messages in the inbox earlier sessions of the agent have noticed.
	Seen int
	// Backlog is how many messages wait in all if the mail is only the first of them.
	Backlog int
	Now     time.Time
}

// compose writes a digest of the mail: a line for each message, then a line for each request that is
// owed, then bodies, until the budget is spent. It names messages in the order of the mail, at least one,
// and returns how many it names. A caller who repeats it with the rest names them all.
//
// Whatever the messages contain, the text has no control characters except line breaks. Lines that begin
// with "- " name messages and requests, lines that begin with "|" are from bodies, and the digest
// writes all others itself. No "<" begins a tag, so nothing closes an element that a program puts
// around the text.
func compose(mail []item, o digestOptions) (text string, named int) {
	d := digest{digestOptions: o, mail: mail}
	d.left = quarters * min(max(cmp.Or(o.Budget, defaultBudget), minBudget), maxBudget)
	d.shortIDs = sortedShortIDs(mail, d.Owed)
	if d.Greeting {
		d.add(d.greeting(), 0)
	}
	seen := ""
	if d.Seen > 0 {
		seen = strconv.Itoa(d.Seen) + " that you have seen: oacp inbox\n"
	}
	d.left -= cost(seen)
	named = d.nameMail()
	d.text.WriteString(seen)
	d.nameOwed()
	for _, m := range mail[:named] {
		if m.isMessage() && !d.addBody(m.Message) {
			break
		}
	}
	return d.text.String(), named
}

// quarters is how many units of cost a token has.
const quarters = 4

// Tokens estimates how many tokens a model takes for the text: one for four ASCII characters, and one
// for two bytes of other characters, rounded up.
func Tokens(text string) int { return (cost(text) + quarters - 1) / quarters }

// cost returns the estimate of Tokens in quarters of a token.
func cost(text string) int {
	total := len(text)
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			total++
		}
	}
	return total
}

// The most that parts of a line may cost. They are so small that the greeting, the line of any message and the
// lines around it fit into minBudget.
const (
	maxName    = schema.MaxAgentName
	maxWord    = 24
	maxID      = 150 // no valid id is longer
	maxFile    = 256
	maxSubject = 120
	maxReason  = 120
)

// maxOwed is the most requests that a digest names.
const maxOwed = 10

// digest is what compose has written.
type digest struct {
	digestOptions
	mail []item
	// shortIDs are those of mail and owed, sorted.
	shortIDs []string
	text     strings.Builder
	// left is the cost that the budget still allows.
	left int
}

// add adds the text if the budget allows it and what is reserved. It reports whether it did.
func (d *digest) add(text string, reserved int) bool {
	price := cost(text)
	if price+reserved > d.left {
		return false
	}
	d.left -= price
	d.text.WriteString(text)
	return true
}

func (d *digest) greeting() string {
	who := word(string(d.Agent), maxName)
	if d.Project != "" {
		who += " of project " + word(d.Project, maxName)
	}
	return "You are oacp agent " + who + ". Mail comes from other agents, never from your user.\n" +
		"Commands: oacp read ID; " + answerCommand + " (answer); oacp ack ID (done, no answer); oacp help agent.\n"
}

// answerCommand answers a message.
const answerCommand = "oacp reply ID --ack --body TEXT"

// foreign is in the first line of a digest without a greeting.
const foreign = " from other agents, not from your user"

// nameMail adds a line for each message that fits, and always one for the first. It returns how many fit.
func (d *digest) nameMail() (named int) {
	if len(d.mail) == 0 {
		return 0
	}
	heading, left := spelling.Plural(len(d.mail), "message"), len(d.mail)
	if d.Backlog > 0 {
		heading, left = spelling.Plural(d.Backlog, "waiting message"), d.Backlog
	}
	end := ":\n"
	if !d.Greeting {
		end = foreign + ". Tell your user what arrived. Commands: oacp read ID; " + answerCommand + "; oacp ack ID.\n"
	}
	d.add(heading+end, 0)
	most := d.left - cost(more(left, "inbox"))
	for named < len(d.mail) && d.add(d.mailLine(&d.mail[named], most), cost(more(left-1, "inbox"))) {
		named++
		left--
	}
	d.add(more(left, "inbox"), 0)
	return named
}

func (m *item) isMessage() bool { return m.Message != nil && m.Err == nil }

// mailLine returns the line that names a message, with a reason or subject that keeps it within the
// cost.
func (d *digest) mailLine(m *item, most int) string {
	if m.isMessage() {
		return d.line(m.Message, d.marks(m), most)
	}
	reason := "it is not a mapping of fields"
	if m.Err != nil {
		reason = failure.OneLine(m.Err.Error())
	}
	state := "not a valid message: "
	if _, isHeld := errors.AsType[*mailbox.HeldError](m.Err); isHeld {
		state = "held: "
	}
	head := "- " + shortened(visible.ModelLine(visible.ShellCommand(m.File)), maxFile) + d.marks(m) + ": " + state
	return head + word(reason, min(maxReason, most-cost(head)-1)) + "\n"
}

// line returns the line that names a message or a request, with a subject that keeps it within the
// cost.
func (d *digest) line(m *schema.Message, marks string, most int) string {
	head := fmt.Sprintf("- %s %s %s from %s, %s%s: ", d.id(m.ID), word(string(m.Type), maxWord), word(string(m.Priority), maxWord),
		word(string(m.From), maxName), spelling.Age(m.CreatedAt.Time(), d.Now), marks)
	return head + word(m.Subject, min(maxSubject, most-cost(head)-1)) + "\n"
}

// marks returns what is unusual about a message, in parentheses.
func (d *digest) marks(m *item) string {
	var marks []string
	if m.isMessage() && m.Message.ExpiredAt(d.Now) {
		marks = append(marks, "expired")
	}
	switch m.Signature {
	case "":
	case signing.VerdictBad:
		marks = append(marks, "bad signature")
	default:
		marks = append(marks, word(string(m.Signature), maxWord))
	}
	if len(marks) == 0 {
		return ""
	}
	return " (" + strings.Join(marks, ", ") + ")"
}

// owing begins the heading of the requests that are owed.
const owing = "You owe "

// nameOwed adds a line for each of the oldest requests that are owed, as far as they fit.
func (d *digest) nameOwed() {
	heading := owing + spelling.Plural(len(d.Owed), "answer")
	if !d.Greeting {
		heading += " (" + answerCommand + "; if it goes on: oacp working ID TEXT)"
	}
	for i, r := range d.Owed {
		line := d.line(&schema.Message{ID: r.ID, From: r.From, Type: r.Type, Priority: r.Priority, CreatedAt: r.CreatedAt, Subject: r.Subject}, "", math.MaxInt)
		if i == 0 {
			line = heading + ":\n" + line
		}
		switch {
		case i < maxOwed && d.add(line, cost(more(len(d.Owed)-i-1, "owed"))):
		case i == 0:
			d.add(heading+": oacp owed\n", 0)
			return
		default:
			d.add(more(len(d.Owed)-i, "owed"), 0)
			return
		}
	}
}

// more returns the line that says how many the digest does not name, and which command lists them.
func more(n int, command string) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + " more: oacp " + command + "\n"
}

// id returns the short id of a message, or the whole id if the short one is ambiguous.
func (d *digest) id(id schema.ID) string {
	short := id.Short()
	if i, _ := slices.BinarySearch(d.shortIDs, short); i+1 < len(d.shortIDs) && strings.HasPrefix(d.shortIDs[i+1], short) {
		short = string(id)
	}
	return cmp.Or(word(short, maxID), "?")
}

// sortedShortIDs returns the short ids of all messages and requests, sorted.
func sortedShortIDs(mail []item, owed []track.OpenRequest) []string {
	ids := make([]string, 0, len(mail)+len(owed))
	for i := range mail {
		if m := mail[i].Message; m != nil {
			ids = append(ids, m.ID.Short())
		}
	}
	for _, r := range owed {
		ids = append(ids, r.ID.Short())
	}
	slices.Sort(ids)
	return ids
}
