package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// errMetadata reports metadata that carries a message which does not belong to the record.
var errMetadata = errors.New("metadata does not match the record and is ignored")

// Carried returns the message that the record's metadata carries, or nil if there is none. It returns an
// error, and no message, unless ToBridge makes this record from that message.
func Carried(r bridge.Record) (*schema.Message, error) {
	var metadata struct {
		OACP json.RawMessage `json:"oacp"`
		File string          `json:"oacp_file"`
	}
	// There may be no metadata, and other tools may put anything into it.
	if json.Unmarshal(r.Metadata, &metadata) != nil || metadata.OACP == nil {
		return nil, nil
	}
	var m schema.Message
	err := json.Unmarshal(metadata.OACP, &m)
	if m.Auth != "" {
		m.File = metadata.File
	}
	if err == nil {
		err = validate.Message(&m).Err()
	}
	isRecord := func(made bridge.Record) bool { return isRecordOf(r, made, &m) }
	if err == nil && !slices.ContainsFunc(plainRecords(&m, r.RunID), isRecord) {
		err = fmt.Errorf("message %s says something else", m.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMetadata, err)
	}
	return &m, nil
}

// isRecordOf reports whether the record equals the one made from the message, apart from lines of idLine.
func isRecordOf(r, made bridge.Record, m *schema.Message) bool {
	return made.Type == r.Type && made.Signal == r.Signal && made.From == r.From && made.To == r.To &&
		withoutIDLines(made.Content, m.ID) == withoutIDLines(r.Content, m.ID)
}

func withoutIDLines(content string, id schema.ID) string {
	for strings.HasSuffix(content, idLine(id)) {
		content = strings.TrimSuffix(content, idLine(id))
	}
	return content
}

// Recipients returns the recipients of a record: the one it names or, for a broadcast, all agents
// except the sender. It returns an error if there is none.
func Recipients(r bridge.Record, agents []schema.AgentName) ([]schema.AgentName, error) {
	if r.To != "" {
		to, err := schema.ParseAgentName(r.To)
		if err == nil && r.To == r.From {
			err = fmt.Errorf("%q is the sender", to)
		}
		if err != nil {
			return nil, fmt.Errorf("to: %w", err)
		}
		return []schema.AgentName{to}, nil
	}
	to := slices.DeleteFunc(slices.Clone(agents), func(agent schema.AgentName) bool { return string(agent) == r.From })
	if len(to) == 0 {
		return nil, errors.New("to: a broadcast, but there is no other agent")
	}
	return to, nil
}

const (
	// originMark begins the context_keys of a derived message; the JSON of its Origin follows.
	originMark = "bridge-record: "
	// contentKey is the key of content in a structured body.
	contentKey = "content"
	// The rand of a derived message has timeLength characters for its time, then hashLength digits of a
	// SHA-256.
	timeLength = 3
	hashLength = 13
)

// Origin names the record that a message was derived from.
type Origin struct {
	ID  string `json:"id"`
	Run int    `json:"run"`
}

// Names reports whether the origin names the record.
func (o Origin) Names(r bridge.Record) bool {
	return r.ID == o.ID && r.RunID == o.Run
}

// OriginOf returns the origin of a derived message. An answer to such a message has another channel
// and no origin.
func OriginOf(m *schema.Message) (Origin, bool) {
	row, _, ok := rowOfChannel(m.Channel)
	if !ok || m.Type != row.Message {
		return Origin{}, false
	}
	var o struct {
		ID  *string `json:"id"`
		Run *int    `json:"run"`
	}
	text, marked := strings.CutPrefix(m.ContextKeys, originMark)
	if marked && json.Unmarshal([]byte(text), &o) == nil && o.ID != nil && o.Run != nil {
		return Origin{*o.ID, *o.Run}, true
	}
	return Origin{}, false
}

// Derive returns the message for a record that carries none. A broadcast to more than
// schema.MaxRecipients agents becomes several messages, numbered by part from 0. Derive always returns
// the same message for the same arguments. It returns an error if no valid message can say what the
// record says.
func Derive(r bridge.Record, to []schema.AgentName, part int) (*schema.Message, error) {
	from, err := schema.ParseAgentName(r.From)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	if len(r.Content) > schema.MaxFileSize {
		return nil, fmt.Errorf("content: %d bytes are more than a message file holds", len(r.Content))
	}
	origin, err := json.Marshal(Origin{r.ID, r.RunID})
	if err != nil {
		return nil, fmt.Errorf("id: %w", err)
	}
	at := timeOf(r.Timestamp)
	row := rowOfRecord(r.Type, r.Signal)
	m := &schema.Message{
		ID: derivedID(r, at, from, part), From: from, To: to, Type: row.Message,
		Priority: schema.DefaultPriority, CreatedAt: schema.NewTimestamp(at), Channel: row.Channel,
		ContextKeys: originMark + string(origin), Subject: derivedSubject(r, row), Body: derivedBody(r.Content),
	}
	if r.To == "" {
		m.Channel += broadcastSuffix
	}
	if err := validate.Message(m).Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// AsNotice returns a message of Derive as a notice, which starts no turn, for a record that its run works.
func AsNotice(m *schema.Message) *schema.Message {
	notice := *m
	notice.Type, notice.Channel = schema.Notification, m.Channel+schema.NoticeSuffix
	return &notice
}

func derivedID(r bridge.Record, at time.Time, from schema.AgentName, part int) schema.ID {
	recipient := r.To
	if part > 0 {
		recipient = "#" + strconv.Itoa(part) // no agent has such a name
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s", r.RunID, r.ID, recipient))
	rand := schema.TimeWithinMinute(at, timeLength) + hex.EncodeToString(sum[:])[:hashLength]
	return schema.ID("msg-" + at.Format("20060102T1504Z") + "-" + string(from) + "-" + rand)
}

// Fingerprint returns 24 hexadecimal digits that identify what a record says. They differ for different
// records that have the same id.
func Fingerprint(r bridge.Record) string {
	const digits = 24
	h := sha256.New()
	for _, text := range []string{r.ID, string(r.Type), r.From, r.To, r.Content, string(r.Signal)} {
		fmt.Fprintf(h, "%d:%s", len(text), text) // a hash never fails to write
	}
	return hex.EncodeToString(h.Sum(nil))[:digits]
}

// timeOf parses a timestamp. If the text is not a time in the years 1 to 9999, it returns the start of 1970.
func timeOf(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	at = at.UTC()
	if err != nil || at.Year() < 1 || at.Year() > 9999 {
		return time.Unix(0, 0).UTC()
	}
	return at
}

func derivedSubject(r bridge.Record, row Row) string {
	switch line := firstLine(r.Content); {
	case line != "":
		return line
	case !row.documented():
		return "record without content"
	case r.Signal != "":
		return string(r.Signal)
	}
	return string(r.Type)
}

// derivedBody returns a text body with the content or, if a text body cannot hold it, a structured body.
func derivedBody(content string) schema.Value {
	trimmed := strings.TrimSpace(content)
	if trimmed != "" && (len(trimmed) <= schema.MaxBody || utf8.RuneCountInString(trimmed) <= schema.MaxBody) {
		return schema.TextValue(content)
	}
	pair := schema.Pair{Key: contentKey, Value: schema.TextValue(content)}
	return schema.Value{Kind: schema.Mapping, Pairs: []schema.Pair{pair}}
}

// derivedContent returns the content that derivedBody was given.
func derivedContent(body schema.Value) string {
	if body.Kind == schema.Mapping {
		return body.Get(contentKey).Text
	}
	return body.Text
}
