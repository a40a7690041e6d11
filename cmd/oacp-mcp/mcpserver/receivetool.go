package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
)

type receiveMessagesInput struct {
	Agent   string  `json:"agent,omitempty" jsonschema:"You."`
	SinceID string  `json:"since_id,omitempty" jsonschema:"The last_id of the answer before: only messages after it."`
	Offset  offset  `json:"offset,omitempty" jsonschema:"The next_offset of the answer before, to read on in a long message."`
	Limit   limit   `json:"limit,omitempty" jsonschema:"Default 20."`
	Seconds seconds `json:"wait_seconds,omitempty" jsonschema:"To wait if there is nothing new, at most 480."`
}

func (in receiveMessagesInput) wait() time.Duration { return in.Seconds.wait() }

type receivedRecords struct {
	Agent    string           `json:"agent" jsonschema:"The receiving agent."`
	Messages []receivedRecord `json:"messages" jsonschema:"The messages, oldest first."`
	More     bool             `json:"more,omitempty" jsonschema:"There is more: call again with since_id, and offset if there is a next_offset."`
	LastID   string           `json:"last_id,omitempty" jsonschema:"What to give as since_id of the next call: an id, or @ and a place in the log where an earlier message has the same id."`
	Next     int              `json:"next_offset,omitempty" jsonschema:"The last message is only a part: what to give as offset of the next call for the next part."`
}

type receivedRecord struct {
	ID        string          `json:"id" jsonschema:"Id of the message."`
	RunID     int             `json:"run_id" jsonschema:"Number of the run."`
	Type      string          `json:"type" jsonschema:"task, result, review, signal or chat."`
	From      string          `json:"from" jsonschema:"The sending agent."`
	To        string          `json:"to" jsonschema:"The receiving agent; empty if it is for everyone."`
	Content   string          `json:"content" jsonschema:"The message itself."`
	Offset    int             `json:"offset,omitempty" jsonschema:"The character of the message that content begins with, if not the first."`
	Signal    string          `json:"signal,omitempty" jsonschema:"DONE, PASS or FAIL, of a signal."`
	Timestamp string          `json:"timestamp" jsonschema:"When the message was sent."`
	Metadata  json.RawMessage `json:"metadata,omitempty" jsonschema:"Further facts, unless they are long."`
	Line      int             `json:"line" jsonschema:"Line of the message in the log."`
}

// newReceivedRecord leaves the content out.
func newReceivedRecord(e bridge.Entry) receivedRecord {
	r := receivedRecord{
		ID: cut(e.ID, idTokens), RunID: e.RunID, Type: cut(string(e.Type), nameTokens), From: cut(e.From, nameTokens), To: cut(e.To, nameTokens),
		Signal: cut(string(e.Signal), nameTokens), Timestamp: cut(e.Timestamp, nameTokens), Line: e.Line,
	}
	if costAsJSON(e.Metadata) < reasonTokens {
		r.Metadata = e.Metadata
	}
	return r
}

// text is the record as AgentPair writes it, with its id besides.
func (r receivedRecord) text() string {
	line := fmt.Sprintf("from=%s type=%s", oneLine(r.From), oneLine(r.Type))
	if r.Signal != "" {
		line += " signal=" + oneLine(r.Signal)
	}
	return line + " id=" + oneLine(r.ID) + "\n" + headings().ReplaceAllString(r.Content, " $0") + "\n\n"
}

// headings are lines of content that look like the heading of another message. The text indents them.
var headings = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\[\d+\] from=`) })

func (s *Server) receiveRecords(ctx context.Context, in receiveMessagesInput) (receivedRecords, error) {
	result := receivedRecords{Agent: string(s.agent), Messages: []receivedRecord{}}
	if in.Agent != "" && in.Agent != string(s.agent) {
		return result, argumentErrorf("this server receives only for %s, not for %q: leave the argument agent out", s.agent, cut(in.Agent, nameTokens))
	}
	log, err := s.bridge.open()
	if err != nil {
		return result, err
	}
	after, err := s.findSince(ctx, log, in.SinceID)
	if err != nil {
		return result, err
	}
	if result.LastID = in.SinceID; cut(in.SinceID, idTokens) != in.SinceID {
		result.LastID = placeMark + string(after)
	}
	start, fits := int(in.Offset), newPage(in.Limit)
	for e, err := range log.Drain(ctx, string(s.agent), after) {
		if err != nil {
			return result, err
		}
		same, err := log.Find(ctx, e.ID)
		if err != nil {
			return result, err
		}
		same = slices.DeleteFunc(same, func(other bridge.Entry) bool { return other.Line >= e.Line })
		if slices.ContainsFunc(same, func(earlier bridge.Entry) bool { return earlier.SaysTheSame(e.Record) }) {
			continue // a careless writer appended the record again
		}
		if result.More, err = result.add(fits, e, start); err != nil {
			return result, err
		}
		if result.More {
			break
		}
		start = 0
		if result.LastID = e.ID; len(same) > 0 || cut(e.ID, idTokens) != e.ID {
			result.LastID = placeMark + string(e.Cursor())
		}
	}
	return result, nil
}

// add appends a record, from the character start of its content on, and reports whether something is
// left of it. A part of a record is only ever alone.
func (r *receivedRecords) add(fits *page, e bridge.Entry, start int) (rest bool, err error) {
	one := newReceivedRecord(e)
	one.Content, one.Offset = e.Content, start
	if start > 0 {
		characters := []rune(e.Content)
		if start >= len(characters) {
			return false, argumentErrorf("the argument offset is %d, but the message has only %d characters", start, len(characters))
		}
		one.Content = string(characters[start:])
	}
	if fits.takes(one) {
		r.Messages = append(r.Messages, one)
		return false, nil
	}
	if len(r.Messages) > 0 {
		return true, nil
	}
	whole := one.Content
	one.Content = ""
	one.Content = whole[:fitting(whole, fits.left-costAsJSON(one)-nameTokens)]
	r.Messages = append(r.Messages, one)
	r.Next = start + utf8.RuneCountInString(one.Content)
	return true, nil
}

// placeMark begins a last_id that is a place in the log, because the record shares its id with an earlier one or has a
// long one.
const placeMark = "@"

// findSince returns the place behind the message that since names: the first record with that id, or a place in the
// log. If since is empty, the place is the beginning.
func (s *Server) findSince(ctx context.Context, log *bridge.Log, since string) (bridge.Cursor, error) {
	if since == "" {
		return "", nil
	}
	found, err := log.Find(ctx, since)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return found[0].Cursor(), nil
	}
	if place, marked := strings.CutPrefix(since, placeMark); marked && bridge.Cursor(place).Line() > 0 {
		return bridge.Cursor(place), nil
	}
	return "", &failure.Error{
		Code: "not_found",
		Err:  fmt.Errorf("since_id: no message of the bridge log %s has the id %q", s.bridge.place.Path, cut(since, idTokens)),
		Hint: "give the last_id of an earlier answer, or leave since_id out to receive everything",
	}
}

// String is the text in the layout that AgentPair documents.
func (r receivedRecords) String() string {
	if len(r.Messages) == 0 {
		return "No new messages"
	}
	var out strings.Builder
	for i, m := range r.Messages {
		fmt.Fprintf(&out, "[%d] %s", i+1, m.text())
	}
	switch {
	case r.Next > 0 && r.LastID != "":
		fmt.Fprintf(&out, "The message goes on: call with since_id=%s and offset=%d", oneLine(r.LastID), r.Next)
	case r.Next > 0:
		fmt.Fprintf(&out, "The message goes on: call with offset=%d", r.Next)
	default:
		if r.More {
			out.WriteString("There are more. ")
		}
		fmt.Fprintf(&out, "To receive what comes after these, call with since_id=%s", oneLine(r.LastID))
	}
	return out.String()
}
