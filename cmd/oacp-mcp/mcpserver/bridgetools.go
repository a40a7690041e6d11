package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/schema"
)

// addBridgeTools offers the three tools of AgentPair's bridge.
func (s *Server) addBridgeTools() error {
	return errors.Join(
		addTool(s, tool[sendToAgentInput, sentRecord]{
			name: "send_to_agent", title: "Send to an agent over the bridge",
			description: "Append a message from you to the bridge log. The same message sent twice is in the log once, so " +
				"you may repeat a call that got no answer.",
			effect: effect{idempotent: true},
			call:   s.sendToAgent,
		}),
		addTool(s, tool[receiveMessagesInput, receivedRecords]{
			name: "receive_messages", title: "Receive messages from the bridge",
			description: "Get the bridge messages addressed to you or to everyone, oldest first. The messages stay in the " +
				"log: give the last_id of an answer as since_id of the next call to get only what is new.",
			effect: effect{readOnly: true, idempotent: true},
			call:   s.receiveMessages,
		}),
		addTool(s, tool[struct{}, bridgeStatus]{
			name: "bridge_status", title: "Status of the bridge",
			description: "Count what the bridge log holds: messages by agent and by type, and the signals DONE, PASS and FAIL.",
			effect:      effect{readOnly: true, idempotent: true},
			call:        s.bridgeStatus,
		}),
	)
}

type sendToAgentInput struct {
	To          string        `json:"to" jsonschema:"Name of the receiving agent; empty for every agent but you."`
	MessageType bridge.Type   `json:"message_type" jsonschema:"Kind of message: task asks for work, result is work done, review is feedback on it, signal ends or judges it, chat is anything else."`
	Content     string        `json:"content" jsonschema:"The message itself, any text including Markdown."`
	Signal      bridge.Signal `json:"signal,omitempty" jsonschema:"With message_type signal, and only then: DONE says the work is complete, PASS approves it, FAIL rejects it."`
}

type sentRecord struct {
	ID        string `json:"id" jsonschema:"Id of the message in the log."`
	Duplicate bool   `json:"duplicate" jsonschema:"The log already held this message, and nothing was written."`
	RunID     int    `json:"run_id" jsonschema:"Number of the run the message belongs to."`
	Line      int    `json:"line" jsonschema:"Line of the message in the log."`
	Timestamp string `json:"timestamp" jsonschema:"When the message was sent."`
}

func (s *Server) sendToAgent(ctx context.Context, in sendToAgentInput) (sentRecord, string, error) {
	record := bridge.Record{
		From: string(s.agent), To: in.To, Type: in.MessageType, Content: in.Content, Signal: in.Signal,
	}
	if err := s.checkRecord(record); err != nil {
		return sentRecord{}, "", err
	}
	log, err := s.bridge.sending()
	if err != nil {
		return sentRecord{}, "", err
	}
	receipt, err := log.Send(ctx, record)
	if err == nil {
		err = receipt.Conflict(record)
	}
	if err != nil {
		return sentRecord{}, "", err
	}
	result := sentRecord{receipt.ID, receipt.Duplicate, receipt.RunID, receipt.Line, receipt.Timestamp}
	if !receipt.Duplicate {
		return result, "Message sent: id=" + receipt.ID, nil
	}
	return result, fmt.Sprintf("Message duplicate (already sent): id=%s\nIt is in the log since %s, at line %d.",
		receipt.ID, receipt.Timestamp, receipt.Line), nil
}

// checkRecord says what a sender has to mend, before anything is written.
func (s *Server) checkRecord(r bridge.Record) error {
	switch {
	case r.Type == bridge.TypeSignal && r.Signal == "":
		return argumentErrorf("a message of type signal needs the argument signal: DONE, PASS or FAIL")
	case r.Type != bridge.TypeSignal && r.Signal != "":
		return argumentErrorf("the argument signal goes with message_type signal, not %s: send the signal as a message of its own", r.Type)
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

type receiveMessagesInput struct {
	Agent   string `json:"agent,omitempty" jsonschema:"Your own name; may be left out."`
	SinceID string `json:"since_id,omitempty" jsonschema:"The last_id of an earlier answer or the id of a message: only what came after it is returned."`
	Limit   limit  `json:"limit,omitempty" jsonschema:"Return at most so many messages, 50 if left out."`
}

type receivedRecords struct {
	Agent    string           `json:"agent" jsonschema:"The receiving agent."`
	Messages []receivedRecord `json:"messages" jsonschema:"The messages, oldest first."`
	More     bool             `json:"more" jsonschema:"There are more messages: call again with since_id."`
	LastID   string           `json:"last_id,omitempty" jsonschema:"What to give as since_id of the next call: an id, with @ and a line of the log behind it where an earlier message has the same."`
}

type receivedRecord struct {
	ID        string          `json:"id" jsonschema:"Id of the message."`
	RunID     int             `json:"run_id" jsonschema:"Number of the run."`
	Type      string          `json:"type" jsonschema:"task, result, review, signal or chat."`
	From      string          `json:"from" jsonschema:"The sending agent."`
	To        string          `json:"to" jsonschema:"The receiving agent; empty where all were addressed."`
	Content   string          `json:"content" jsonschema:"The message itself."`
	Signal    string          `json:"signal,omitempty" jsonschema:"DONE, PASS or FAIL, of a signal."`
	Timestamp string          `json:"timestamp" jsonschema:"When the message was sent."`
	Metadata  json.RawMessage `json:"metadata,omitempty" jsonschema:"Further facts."`
	Line      int             `json:"line" jsonschema:"Line of the message in the log."`
}

// maxReceivedBytes bounds one answer of receive_messages. A single message is always given whole.
const maxReceivedBytes = 64 << 10

func (s *Server) receiveMessages(ctx context.Context, in receiveMessagesInput) (receivedRecords, string, error) {
	result := receivedRecords{Agent: string(s.agent), Messages: []receivedRecord{}}
	if in.Agent != "" && in.Agent != string(s.agent) {
		return result, "", argumentErrorf("this server receives only for %s, not for %q: leave the argument agent out", s.agent, in.Agent)
	}
	log, err := s.bridge.reading()
	if err != nil {
		return result, "", err
	}
	after, err := s.findSince(ctx, log, in.SinceID)
	if err != nil || log == nil {
		return result, receivedText(result), err
	}
	if result.LastID, err = placeOf(ctx, log, after); err != nil {
		return result, "", err
	}
	size, last := 0, after
	for e, err := range log.Drain(ctx, string(s.agent), cursorOf(after)) {
		if err != nil {
			return result, "", err
		}
		if repeated, err := isRepetition(ctx, log, e); err != nil {
			return result, "", err
		} else if repeated {
			continue
		}
		size += len(e.Content) + len(e.Metadata)
		if len(result.Messages) == in.Limit.orDefault() || len(result.Messages) > 0 && size > maxReceivedBytes {
			result.More = true
			break
		}
		result.Messages, last = append(result.Messages, newReceivedRecord(e)), &e
	}
	if result.LastID, err = placeOf(ctx, log, last); err != nil {
		return result, "", err
	}
	return result, receivedText(result), nil
}

// lineMark separates id and line in the name of a record that shares its id with an earlier one.
const lineMark = "@"

// placeOf names a record so that findSince finds it: by its id, which means the first record that has it, or by its
// id and line. The name of nil is empty.
func placeOf(ctx context.Context, log *bridge.Log, e *bridge.Entry) (string, error) {
	if e == nil {
		return "", nil
	}
	first, err := log.Get(ctx, e.ID)
	if err != nil || first.Line == e.Line {
		return e.ID, err
	}
	return e.ID + lineMark + strconv.Itoa(e.Line), nil
}

// cursorOf is the place behind a record; of nil the beginning.
func cursorOf(e *bridge.Entry) bridge.Cursor {
	if e == nil {
		return ""
	}
	return e.Cursor()
}

// findSince returns the message that since names; none where it is empty.
func (s *Server) findSince(ctx context.Context, log *bridge.Log, since string) (*bridge.Entry, error) {
	if since == "" {
		return nil, nil
	}
	if log != nil {
		if e, err := findNamed(ctx, log, since); e != nil || err != nil {
			return e, err
		}
	}
	return nil, &failure.Error{
		Code: "not_found",
		Err:  fmt.Errorf("since_id: no message of the bridge log %s has the id %q", s.bridge.place.Path, since),
		Hint: "give the last_id of an earlier answer, or leave since_id out to receive everything",
	}
}

// findNamed returns the record that an id, or an id with a line, names; or nil.
func findNamed(ctx context.Context, log *bridge.Log, name string) (*bridge.Entry, error) {
	found, err := log.Find(ctx, name)
	if err != nil || len(found) > 0 {
		return firstOf(found), err
	}
	if i := strings.LastIndex(name, lineMark); i >= 0 {
		found, err := log.Find(ctx, name[:i])
		return firstOf(slices.DeleteFunc(found, func(e bridge.Entry) bool { return strconv.Itoa(e.Line) != name[i+1:] })), err
	}
	return nil, nil
}

func firstOf(found []bridge.Entry) *bridge.Entry {
	if len(found) == 0 {
		return nil
	}
	return &found[0]
}

// isRepetition tells a record from those that a careless writer appended again later. Records that share an id and
// say something else, a FAIL and a PASS with the same words for example, are messages of their own.
func isRepetition(ctx context.Context, log *bridge.Log, e bridge.Entry) (bool, error) {
	found, err := log.Find(ctx, e.ID)
	return slices.ContainsFunc(found, func(f bridge.Entry) bool { return f.Line < e.Line && f.SaysTheSame(e.Record) }), err
}

func newReceivedRecord(e bridge.Entry) receivedRecord {
	return receivedRecord{
		ID: e.ID, RunID: e.RunID, Type: string(e.Type), From: e.From, To: e.To, Content: e.Content,
		Signal: string(e.Signal), Timestamp: e.Timestamp, Metadata: e.Metadata, Line: e.Line,
	}
}

// receivedText writes messages as AgentPair does, with their ids besides.
func receivedText(r receivedRecords) string {
	if len(r.Messages) == 0 {
		return "No new messages"
	}
	var out strings.Builder
	for i, m := range r.Messages {
		fmt.Fprintf(&out, "[%d] from=%s type=%s", i+1, oneLine(m.From), oneLine(m.Type))
		if m.Signal != "" {
			fmt.Fprintf(&out, " signal=%s", oneLine(m.Signal))
		}
		fmt.Fprintf(&out, " id=%s\n%s\n\n", oneLine(m.ID), indentHeadings(m.Content))
	}
	if r.More {
		out.WriteString("There are more. ")
	}
	fmt.Fprintf(&out, "To receive what comes after these, call with since_id=%s", oneLine(r.LastID))
	return out.String()
}

// indentHeadings indents lines of content that look like the heading of another message.
func indentHeadings(content string) string {
	return regexp.MustCompile(`(?m)^\[\d+\] from=`).ReplaceAllString(content, " $0")
}

type bridgeStatus struct {
	bridge.Status
	Log   string `json:"log" jsonschema:"Path of the log."`
	RunID int    `json:"run_id" jsonschema:"Number of the run that new messages belong to."`
}

func (s *Server) bridgeStatus(ctx context.Context, _ struct{}) (bridgeStatus, string, error) {
	result := bridgeStatus{Log: s.bridge.place.Path, RunID: s.bridge.place.Run.ID}
	result.ByAgent, result.ByType = map[string]int{}, map[bridge.Type]int{}
	log, err := s.bridge.reading()
	if err == nil && log != nil {
		result.Status, err = log.Status(ctx)
	}
	return result, statusText(result), err
}

// statusText writes the status in the layout that AgentPair documents, and below it what it does not count.
func statusText(r bridgeStatus) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Bridge Status:\n  Total Messages: %d\n  Done Signal: %t\n  Pass Count: %d\n  Fail Count: %d\n",
		r.TotalMessages, r.HasDoneSignal, r.PassCount, r.FailCount)
	out.WriteString("  Messages by Agent:\n")
	for _, agent := range slices.Sorted(maps.Keys(r.ByAgent)) {
		fmt.Fprintf(&out, "    %s: %d\n", oneLine(agent), r.ByAgent[agent])
	}
	out.WriteString("  Messages by Type:\n")
	for _, t := range slices.SortedFunc(maps.Keys(r.ByType), compareTypes) {
		fmt.Fprintf(&out, "    %s: %d\n", oneLine(string(t)), r.ByType[t])
	}
	if r.SkippedLines > 0 {
		fmt.Fprintf(&out, "  Skipped Lines: %d\n", r.SkippedLines)
	}
	fmt.Fprintf(&out, "  Log: %s\n", r.Log)
	return out.String()
}

// compareTypes sorts the documented types first, in their order.
func compareTypes(a, b bridge.Type) int {
	rank := func(t bridge.Type) uint { return uint(slices.Index(bridge.Types(), t)) } // unknown: the largest
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}
