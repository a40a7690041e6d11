package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/schema"
)

type sendToAgentInput struct {
	To          string        `json:"to" jsonschema:"Name of the receiving agent; empty for every agent but you."`
	MessageType bridge.Type   `json:"message_type" jsonschema:"task asks for work, result is work done, review is feedback on it, signal ends or judges it, chat is anything else."`
	Content     string        `json:"content" jsonschema:"The message."`
	Signal      bridge.Signal `json:"signal,omitempty" jsonschema:"With message_type signal, and only then: DONE: the work is complete, PASS approves it, FAIL rejects it."`
}

type sentRecord struct {
	ID string `json:"id"`
	// Duplicate reports that the log already held this message, and nothing was written.
	Duplicate bool   `json:"duplicate"`
	RunID     int    `json:"run_id"`
	Line      int    `json:"line"`
	Timestamp string `json:"timestamp"`
}

func (s *Server) sendToAgent(ctx context.Context, in sendToAgentInput) (sentRecord, error) {
	record := bridge.Record{
		From: string(s.agent), To: in.To, Type: in.MessageType, Content: in.Content, Signal: in.Signal,
	}
	if err := s.checkRecord(record); err != nil {
		return sentRecord{}, err
	}
	receipt, err := s.log.Send(ctx, record)
	if err == nil {
		err = receipt.Conflict(record)
	}
	return sentRecord{receipt.ID, receipt.Duplicate, receipt.RunID, receipt.Line, receipt.Timestamp}, err
}

// checkRecord returns an error if the sender has to correct the record.
func (s *Server) checkRecord(r bridge.Record) error {
	switch {
	case r.Type == bridge.TypeSignal && r.Signal == "":
		return argumentErrorf("a message of type signal needs the argument signal: DONE, PASS or FAIL")
	case r.Type != bridge.TypeSignal && r.Signal != "":
		return argumentErrorf("the argument signal requires message_type signal, not %s: send the signal as a separate message", r.Type)
	case r.Type != bridge.TypeSignal && strings.TrimSpace(r.Content) == "":
		return argumentErrorf("the argument content is empty: say what the message is")
	case r.To == string(s.agent):
		return argumentErrorf("the argument to is %q, which is you", r.To)
	case r.To == "":
		return nil
	}
	if s.workspace != nil {
		return s.workspace.CheckAgent(schema.AgentName(r.To))
	}
	_, err := schema.ParseAgentName(r.To)
	return err
}

type bridgeStatus struct {
	bridge.Status
	// Others counts the agents and types that the maps omit.
	Others int    `json:"others,omitempty"`
	Log    string `json:"log"`
	RunID  int    `json:"run_id"`
}

func (s *Server) bridgeStatus(ctx context.Context, _ struct{}) (bridgeStatus, error) {
	result := bridgeStatus{Log: cut(s.log.Path(), frameTokens), RunID: s.run}
	var err error
	result.Status, err = s.log.Status(ctx)
	agents, types := len(result.ByAgent), len(result.ByType)
	result.ByAgent, result.ByType = mostOf(result.ByAgent), mostOf(result.ByType)
	result.Others = agents - len(result.ByAgent) + types - len(result.ByType)
	return result, err
}

// mostOf returns the largest counts, with bounded names.
func mostOf[Name ~string](counts map[Name]int) map[Name]int {
	const most = 20
	names := slices.SortedFunc(maps.Keys(counts), func(a, b Name) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	short := map[Name]int{}
	for _, name := range names[:min(most, len(names))] {
		short[cut(name, nameTokens)] += counts[name]
	}
	return short
}

type receiveMessagesInput struct {
	Agent   string  `json:"agent,omitempty" jsonschema:"You."`
	SinceID string  `json:"since_id,omitempty" jsonschema:"The last_id of the answer before: only messages after it."`
	Offset  offset  `json:"offset,omitempty" jsonschema:"The next_offset of the answer before, to read on in a long message."`
	Limit   limit   `json:"limit,omitempty" jsonschema:"Default 20."`
	Seconds seconds `json:"wait_seconds,omitempty" jsonschema:"To wait if there is nothing new, at most 480."`
}

func (in *receiveMessagesInput) setDefaults() { in.Limit = defaultLimit }

func (in receiveMessagesInput) wait() time.Duration { return in.Seconds.wait() }

type receivedRecords struct {
	Agent    string           `json:"agent"`
	Messages []receivedRecord `json:"messages"`
	// More reports that there is more after LastID or, if the last message is only a part, from Next on.
	More   bool   `json:"more,omitempty"`
	LastID string `json:"last_id,omitempty"`
	Next   int    `json:"next_offset,omitempty"`
}

// A receivedRecord has no metadata, which may be long.
type receivedRecord struct {
	ID      string `json:"id"`
	RunID   int    `json:"run_id"`
	Type    string `json:"type"`
	From    string `json:"from"`
	To      string `json:"to"`
	Content string `json:"content"`
	// Offset is the character of the message that Content begins with.
	Offset    int    `json:"offset,omitempty"`
	Signal    string `json:"signal,omitempty"`
	Timestamp string `json:"timestamp"`
	Line      int    `json:"line"`
}

// placeMark begins a last_id, which is a place in the log because several records may have the same id.
const placeMark = "@"

func (s *Server) receiveRecords(ctx context.Context, in receiveMessagesInput) (receivedRecords, error) {
	result := receivedRecords{Agent: string(s.agent), Messages: []receivedRecord{}}
	if in.Agent != "" && in.Agent != string(s.agent) {
		return result, argumentErrorf("this server receives only for %s, not for %q: leave the argument agent out", s.agent, cut(in.Agent, nameTokens))
	}
	after, err := s.findSince(ctx, in.SinceID)
	if err != nil {
		return result, err
	}
	start, fits := int(in.Offset), newPage(in.Limit)
	for e, err := range s.log.Drain(ctx, string(s.agent), after) {
		if err != nil {
			return result, err
		}
		if result.More, err = result.add(fits, e, start); err != nil {
			return result, err
		}
		if result.More {
			break
		}
		start, after = 0, e.Cursor()
	}
	if after != "" {
		result.LastID = placeMark + string(after)
	}
	return result, nil
}

// add appends a record, with its content from the character start on, and reports whether some of it is
// left. It appends a part of a record only if no other record is on the page.
func (r *receivedRecords) add(fits *page, e bridge.Entry, start int) (rest bool, err error) {
	one := receivedRecord{
		ID: cut(e.ID, idTokens), RunID: e.RunID, Type: cut(string(e.Type), nameTokens), From: cut(e.From, nameTokens), To: cut(e.To, nameTokens),
		Content: e.Content, Offset: start, Signal: cut(string(e.Signal), nameTokens), Timestamp: cut(e.Timestamp, nameTokens), Line: e.Line,
	}
	if start > 0 {
		characters := []rune(e.Content)
		if start >= len(characters) {
			return false, argumentErrorf("the argument offset is %d, but the message has only %d characters", start, len(characters))
		}
		one.Content = string(characters[start:])
	}
	if addTo(&r.Messages, one, fits) {
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

// findSince returns the place in the log that since names, or the one behind the first record with that id.
// If since is empty, it returns the beginning.
func (s *Server) findSince(ctx context.Context, since string) (bridge.Cursor, error) {
	if since == "" {
		return "", nil
	}
	if place, marked := strings.CutPrefix(since, placeMark); marked && bridge.Cursor(place).Line() > 0 {
		return bridge.Cursor(place), nil
	}
	found, err := s.log.Find(ctx, since)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return found[0].Cursor(), nil
	}
	return "", &failure.Error{
		Code: "not_found",
		Err:  fmt.Errorf("since_id: no message of the bridge log %s has the id %q", s.log.Path(), cut(since, idTokens)),
		Hint: "give the last_id of an earlier answer, or leave since_id out to receive everything",
	}
}
