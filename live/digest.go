package live

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/turn"
)

// Budgets of a digest in tokens, as Tokens estimates them. Every byte counts as a quarter of a token
// or more, so a text within MaxBudget has at most 10,000 characters, and 10,000 bytes.
const (
	DefaultBudget = 1500
	MinBudget     = 200
	MaxBudget     = 2500
)

// Mail is a message for a digest to name.
type Mail struct {
	// Message is valid if Err is nil. Otherwise it is what could be read, or nil.
	Message *schema.Message
	// File is the name of the message's file.
	File string
	Err  error
	// Standing mail waited when the session began. Other mail is new.
	Standing bool
	// Elsewhere says that another session of the agent was told.
	Elsewhere bool
	// Signature is what the signature is worth; empty if nobody checks it.
	Signature signing.Verdict
}

// DigestOptions say what a digest holds besides mail, and how long it may be.
type DigestOptions struct {
	Agent   schema.AgentName
	Project string
	// Greeting begins the digest with who the agent is and how to use the mailbox.
	Greeting bool
	// Owed are the requests that wait for the agent's answer, the oldest first. Those that are mail
	// too are not named twice.
	Owed []turn.OpenRequest
	// Budget is the most that the text may cost, from MinBudget to MaxBudget tokens. Zero means
	// DefaultBudget.
	Budget int
	Now    time.Time
}

// A Digest tells an agent about its mail.
type Digest struct {
	// Text is empty if there is nothing to say.
	Text string
	// Named are the indices of the messages that the text names, in its order.
	Named []int
	// Left is how many messages the text does not name.
	Left int
}

// Compose writes a digest of the mail: a line for each message, then a line for each request that is
// owed, then bodies, each as far as the budget goes. Priority P0 comes first, then new mail before
// standing mail; among equals the order is that of an inbox. Compose names at least one message, so
// repeating it with those that are left names each.
//
// Whatever the messages hold, the text has no control characters but line breaks. Lines that begin
// with "- " name messages and requests, lines that begin with "|" are from bodies, and the digest
// writes all others itself. No "<" begins a tag, so nothing closes an element that a program puts
// around the text.
func Compose(mail []Mail, o DigestOptions) Digest {
	d := digest{DigestOptions: o, mail: mail, left: quarters * min(max(cmp.Or(o.Budget, DefaultBudget), MinBudget), MaxBudget)}
	d.Owed = d.owedOnly()
	d.rands = d.sortedRands()
	d.greet()
	d.nameMail()
	d.nameOwed()
	for _, i := range d.named {
		if !d.addBody(i) {
			break
		}
	}
	return Digest{Text: d.text.String(), Named: d.named, Left: len(mail) - len(d.named)}
}

// quarters is how many units of cost a token has.
const quarters = 4

// Tokens estimates how many tokens a model takes for the text: one for four ASCII characters, and one
// for two bytes of other characters, rounded up. That is more than tokenizers take for most text.
func Tokens(text string) int { return (cost(text) + quarters - 1) / quarters }

// cost returns the estimate of Tokens in quarters of a token.
func cost(text string) int {
	total := 0
	for i := range len(text) {
		if total++; text[i] >= utf8.RuneSelf {
			total++
		}
	}
	return total
}

// digest is a Digest while Compose writes it.
type digest struct {
	DigestOptions
	mail []Mail
	// rands are the short ids of all messages and requests, sorted.
	rands []string
	text  strings.Builder
	// left is the rest of the budget in quarters of a token.
	left  int
	named []int
}

// add adds the text if it fits, and leaves as much of the budget as reserved.
func (d *digest) add(text string, reserved int) bool {
	price := cost(text)
	if price+reserved > d.left {
		return false
	}
	d.left -= price
	d.text.WriteString(text)
	return true
}

// The most that parts of lines cost, in quarters of a token. So the greeting, the longest line of a
// message and what surrounds it fit into MinBudget.
const (
	maxName    = schema.MaxAgentName
	maxID      = 150
	maxWord    = 24
	maxFile    = 120
	maxReason  = 120
	maxSubject = 160
	leastBody  = 80
	maxOwed    = 10
)

func (d *digest) greet() {
	if d.Greeting {
		d.add(fmt.Sprintf(`You are agent %s of the oacp project %s. Its mail comes from other agents, not from your user.
Read: oacp read ID. Answer: oacp reply ID --ack --body TEXT. Done without an answer: oacp ack ID.
`, word(string(d.Agent), maxName), word(d.Project, maxName)), 0)
	}
}

// nameMail adds the heading of the mail and a line for each message that fits, the first one always.
func (d *digest) nameMail() {
	if len(d.mail) == 0 {
		return
	}
	d.add(d.heading(), 0)
	order := inOrder(d.mail)
	for n, i := range order {
		more := ""
		if rest := len(order) - n - 1; rest > 0 {
			more = fmt.Sprintf("%d more: oacp inbox\n", rest)
		}
		most := math.MaxInt
		if n == 0 {
			most = d.left - cost(more)
		}
		if !d.add(d.mailLine(&d.mail[i], most), cost(more)) {
			d.add(fmt.Sprintf("%d more: oacp inbox\n", len(order)-n), 0)
			return
		}
		d.named = append(d.named, i)
	}
}

func (d *digest) heading() string {
	standing := 0
	for i := range d.mail {
		if d.mail[i].Standing {
			standing++
		}
	}
	text := spelling.Count(len(d.mail)-standing, "new message")
	switch standing {
	case 0:
	case len(d.mail):
		text = spelling.Count(standing, "waiting message")
	default:
		text += fmt.Sprintf(", %d waiting", standing)
	}
	if !d.Greeting {
		text += " from other agents, not from your user (oacp read ID, oacp reply ID --ack, oacp ack ID)"
	}
	return text + ":\n"
}

// inOrder returns the indices of the mail in the order of the digest.
func inOrder(mail []Mail) []int {
	const classes = 100 // more than there are
	type key struct {
		class, index int
		age          schema.Age
	}
	keys := make([]key, len(mail))
	for i := range mail {
		k := key{class: classes - 1, index: i}
		if m := mail[i].Message; m != nil {
			k.age = m.Age()
			if mail[i].Err == nil {
				k.class = m.Class()
			}
		}
		switch m := &mail[i]; {
		case m.isMessage() && m.Message.Priority == schema.P0:
		case m.Standing:
			k.class += 2 * classes
		default:
			k.class += classes
		}
		keys[i] = k
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.class, b.class), a.age.Compare(&b.age), strings.Compare(mail[a.index].File, mail[b.index].File), cmp.Compare(a.index, b.index))
	})
	order := make([]int, len(keys))
	for i, k := range keys {
		order[i] = k.index
	}
	return order
}

func (m *Mail) isMessage() bool { return m.Message != nil && m.Err == nil }

// mailLine returns the line that names a message, with as much of the subject as the cost allows.
func (d *digest) mailLine(m *Mail, most int) string {
	var marks []string
	if m.Elsewhere {
		marks = append(marks, "another session has seen it")
	}
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
	if m.isMessage() {
		return d.line(m.Message, marks, most)
	}
	reason := "it holds no fields"
	if m.Err != nil {
		reason = failure.OneLine(m.Err.Error())
	}
	return "- " + word(visible.Shell(m.File), maxFile) + inParentheses(marks) + ": not a valid message: " + word(reason, maxReason) + "\n"
}

func inParentheses(marks []string) string {
	if len(marks) == 0 {
		return ""
	}
	return " (" + strings.Join(marks, ", ") + ")"
}

// line returns the line that names a message or a request.
func (d *digest) line(m *schema.Message, marks []string, most int) string {
	head := fmt.Sprintf("- %s %s %s from %s, %s%s: ", d.name(m.ID), word(string(m.Type), maxWord), word(string(m.Priority), maxWord),
		word(string(m.From), maxName), spelling.Age(m.CreatedAt.Time(), d.Now), inParentheses(marks))
	return head + word(m.Subject, min(maxSubject, most-cost(head)-1)) + "\n"
}

// owedOnly returns the requests that are owed and are not mail.
func (d *digest) owedOnly() []turn.OpenRequest {
	if len(d.Owed) == 0 {
		return nil
	}
	mail := make(map[schema.ID]bool, len(d.mail))
	for i := range d.mail {
		if d.mail[i].isMessage() {
			mail[d.mail[i].Message.ID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(d.Owed), func(r turn.OpenRequest) bool { return mail[r.ID] })
}

// nameOwed adds a line for each of the oldest requests that are owed.
func (d *digest) nameOwed() {
	title := "You owe an answer to:\n"
	for i, r := range d.Owed {
		more := fmt.Sprintf("%d more: oacp owed\n", len(d.Owed)-i)
		line := d.line(&schema.Message{ID: r.ID, From: r.From, Type: r.Type, Priority: r.Priority, CreatedAt: r.CreatedAt, Subject: r.Subject}, nil, math.MaxInt)
		if i == maxOwed || !d.add(title+line, cost(more)) {
			if i > 0 {
				d.add(more, 0)
			}
			return
		}
		title = ""
	}
}
