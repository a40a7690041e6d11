package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

const (
	// shortDigits of a record's id end the id of its message.
	shortDigits = 16
	// hashMark and longDigits: where a record's id does not begin with shortDigits hexadecimal digits, or
	// another record has these, so many digits of a SHA-256 of the record do, behind an x, which is no digit.
	hashMark   = "x"
	longDigits = 24
	// partMark and a number from 2 on tell the messages apart that one broadcast to many agents becomes.
	partMark = "p"
)

// recordMark begins context_keys that say what a born message has no field for.
const recordMark = "bridge-record: "

// contentKey is the key of content that stands in a structured body.
const contentKey = "content"

// extra is what stands behind recordMark.
type extra struct {
	ID     string         `json:"id,omitempty"`
	Type   *bridge.Type   `json:"type,omitempty"`
	Signal *bridge.Signal `json:"signal,omitempty"`
	// Of is the id in the record's metadata.
	Of schema.ID `json:"oacp,omitempty"`
	// Run is the number of the record's run.
	Run string `json:"run,omitempty"`
}

// form says which of a record's messages is meant.
type form struct {
	// part counts the messages of a broadcast from 1.
	part int
	// long asks for the id that other records do not share.
	long bool
	// of is the id of the message in the record's metadata, where the record is taken as it stands because
	// another message has that id.
	of schema.ID
	// run is the number of the record's run, where the same record of another run has the message without.
	run string
}

var usual = form{part: 1}

// born returns the message for a record that was born in the bridge, to the given recipients. It never
// changes what it returns for a record: messages in mailboxes are recognized by being equal to it.
func born(r bridge.Record, to []schema.AgentName, f form) (*schema.Message, error) {
	from, err := schema.ParseAgentName(r.From)
	if err != nil {
		return nil, &UndeliverableError{"from", err.Error()}
	}
	if len(r.Content) > schema.MaxFileSize {
		return nil, &UndeliverableError{"content", fmt.Sprintf("%d bytes are more than a message file holds", len(r.Content))}
	}
	at, _ := timeOf(r.Timestamp)
	row := rowOfRecord(r.Type, r.Signal)
	rand, whole := randOf(r, f)
	m := &schema.Message{
		ID:   schema.ID("msg-" + at.Format("20060102T1504Z") + "-" + string(from) + "-" + rand),
		From: from, To: to, Type: row.Message, Priority: schema.DefaultPriority,
		CreatedAt: schema.NewTimestamp(at), Channel: row.Channel,
		Subject: bornSubject(r, row), Body: bornBody(r.Content),
	}
	if r.To == "" {
		m.Channel += BroadcastSuffix
	}
	more := extra{Of: f.of, Run: f.run}
	if !whole {
		more.ID = r.ID
	}
	if !row.documented() {
		more.Type, more.Signal = &r.Type, &r.Signal
	}
	if more != (extra{}) {
		text, err := json.Marshal(more)
		if err != nil {
			return nil, &UndeliverableError{"id", err.Error()}
		}
		m.ContextKeys = recordMark + string(text)
	}
	if err := validate.Message(m).Err(); err != nil {
		return nil, &UndeliverableError{"", err.Error()}
	}
	return m, nil
}

// timeOf reads a timestamp, to the second. What is no time, or none of the years 0 to 9999, is 1970.
func timeOf(text string) (at time.Time, ok bool) {
	at, err := time.Parse(time.RFC3339, text)
	at = at.UTC()
	if err != nil || at.Year() < 0 || at.Year() > 9999 {
		return time.Unix(0, 0).UTC(), false
	}
	return at.Truncate(time.Second), true
}

// randOf returns how the id of a record's message ends, and whether it begins with the record's own digits.
func randOf(r bridge.Record, f form) (rand string, own bool) {
	own = !f.long && hasDigits(r.ID)
	if own {
		rand = r.ID[:shortDigits]
	} else {
		rand = hashMark + hashOf(r, f.run)[:longDigits]
	}
	if f.part > 1 {
		rand += partMark + strconv.Itoa(f.part)
	}
	return rand, own
}

// hashOf returns the SHA-256 of all that a born message keeps of its record but the time, so that records
// that differ have messages that do, even where a careless writer gave them one id. The run is a part of it
// where it is not empty.
func hashOf(r bridge.Record, run string) string {
	h := sha256.New()
	texts := []string{r.ID, string(r.Type), r.From, r.To, r.Content, string(r.Signal)}
	if run != "" {
		texts = append(texts, run)
	}
	for _, text := range texts {
		fmt.Fprintf(h, "%d:%s", len(text), text) // a hash never fails to write
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hasDigits reports whether an id begins with as many lower-case hexadecimal digits as a message's id holds.
func hasDigits(id string) bool {
	if len(id) < shortDigits {
		return false
	}
	for i := range shortDigits {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func bornSubject(r bridge.Record, row Row) string {
	if line := firstLine(r.Content); line != "" {
		return line
	}
	if r.Signal != "" && row.documented() {
		return string(r.Signal)
	}
	if row.documented() {
		return string(r.Type)
	}
	return "record without content"
}

// bornBody is the content as a text, or in a structured body where a text cannot hold it.
func bornBody(content string) schema.Value {
	trimmed := strings.TrimSpace(content)
	if trimmed != "" && (len(trimmed) <= schema.MaxBody || utf8.RuneCountInString(trimmed) <= schema.MaxBody) {
		return schema.TextValue(content)
	}
	return schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{{Key: contentKey, Value: schema.TextValue(content)}}}
}

// origin is what a born message tells of the record it was born from.
type origin struct {
	record bridge.Record // without id and run id
	form   form
	// id is the record's id. It is empty where the message tells only the digits it begins with.
	id, digits string
}

func (o origin) known() bool { return o.id != "" }

// originOf returns the origin of a born message. A message is one if and only if its record gives it: an
// answer on the channel of a born message, or one that somebody edited, is a message like any other.
func originOf(m *schema.Message) (o origin, ok bool) {
	row, broadcast, ok := rowOfChannel(m.Channel)
	if !ok || m.Type != row.Message || !broadcast && len(m.To) != 1 {
		return origin{}, false
	}
	o.record = bridge.Record{
		Type: row.Record, Signal: row.Signal, From: string(m.From), Content: m.Body.Text, Timestamp: string(m.CreatedAt),
	}
	if !broadcast {
		o.record.To = string(m.To[0])
	}
	if m.Body.Kind == schema.Mapping {
		o.record.Content = m.Body.Get(contentKey).Text
	}
	more, ok := extraOf(m)
	if !ok {
		return origin{}, false
	}
	if more.Type != nil && more.Signal != nil {
		o.record.Type, o.record.Signal = *more.Type, *more.Signal
	}
	rand := string(m.ID[strings.LastIndexByte(string(m.ID), '-')+1:])
	o.form.part = 1
	if digits, part, ok := strings.Cut(rand, partMark); ok {
		number, err := strconv.Atoi(part)
		if err != nil {
			return origin{}, false
		}
		rand, o.form.part = digits, number
	}
	o.form.of, o.form.run = more.Of, more.Run
	o.form.long = more.ID != "" && hasDigits(more.ID)
	o.id, o.digits = more.ID, rand
	if again, err := born(o.withID(), m.To, o.form); err != nil || !reflect.DeepEqual(again, m) {
		return origin{}, false
	}
	if o.id == "" {
		r := o.record
		if id := bridge.GenerateID(r.Type, r.From, r.To, r.Content); strings.HasPrefix(id, o.digits) {
			o.id = id
		}
	}
	return o, true
}

// withID returns the record with as much of its id as is known.
func (o origin) withID() bridge.Record {
	r := o.record
	if r.ID = o.id; r.ID == "" {
		r.ID = o.digits
	}
	return r
}

// isOfOneRecord reports whether two messages were born from one record: they are parts of one broadcast.
func (o origin) isOfOneRecord(other origin) bool {
	o.form.part, other.form.part = 1, 1
	return reflect.DeepEqual(o, other)
}

// originOfCopy returns the origin of the message that a record carries, nil where it carries none. A record with
// one is a copy: the record that the message was born from stands in another log.
func originOfCopy(carried *schema.Message) (o origin, ok bool) {
	if carried == nil {
		return origin{}, false
	}
	return originOf(carried)
}

// extraOf reads what context_keys say of the record.
func extraOf(m *schema.Message) (more extra, ok bool) {
	text, marked := strings.CutPrefix(m.ContextKeys, recordMark)
	if !marked {
		return extra{}, m.ContextKeys == ""
	}
	return more, json.Unmarshal([]byte(text), &more) == nil
}
