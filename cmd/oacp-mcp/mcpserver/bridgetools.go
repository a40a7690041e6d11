package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/schema"
)

// addBridgeTools offers the three tools of AgentPair's bridge.
func (s *Server) addBridgeTools() {
	addTool(s, "send_to_agent", "Send to an agent over the bridge",
		"Append a message from you to the bridge log. The same message sent twice is in the log once, so "+
			"you may repeat a call that got no answer.",
		mcp.ToolAnnotations{IdempotentHint: true}, s.sendToAgent)
	addTool(s, "receive_messages", "Receive messages from the bridge",
		"Get the bridge messages addressed to you or to everyone, oldest first, or wait for some. They stay in the "+
			"log: give the last_id of an answer as since_id of the next call to get only what is new.",
		reads(), s.awaitRecords)
	addTool(s, "bridge_status", "Status of the bridge",
		"Count what the bridge log holds: messages by agent and by type, and the signals DONE, PASS and FAIL.",
		reads(), s.bridgeStatus)
}

// openLog opens a log when it is first used. If its run is missing, the first record sent makes it.
// So servers that start at the same time, one for each agent, always mean the same log.
type openLog struct {
	place bridge.Location
	warn  func(error)

	mu  sync.Mutex
	log *bridge.Log
}

// reading returns the log, or nil if its run does not exist yet.
func (o *openLog) reading() (*bridge.Log, error) {
	log, err := o.open()
	if o.place.Missing && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return log, err
}

// sending returns the log, and makes its run if that is missing.
func (o *openLog) sending() (*bridge.Log, error) {
	if err := o.place.Make(time.Now()); err != nil {
		return nil, fmt.Errorf("making the folder of the bridge log: %w", err)
	}
	return o.open()
}

func (o *openLog) open() (_ *bridge.Log, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log == nil {
		o.log, err = bridge.Open(o.place.Path, &bridge.Options{RunID: o.place.Run.ID, Warn: o.warn})
	}
	return o.log, err
}

func (o *openLog) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log == nil {
		return nil
	}
	return o.log.Close()
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
	Agent   string  `json:"agent,omitempty" jsonschema:"Your own name; may be left out."`
	SinceID string  `json:"since_id,omitempty" jsonschema:"The last_id of an earlier answer or the id of a message: only messages after it are returned."`
	Limit   limit   `json:"limit,omitempty" jsonschema:"Return at most so many messages, 50 if left out."`
	Seconds seconds `json:"wait_seconds,omitempty" jsonschema:"If there is nothing new, wait at most so many seconds for a message; 0 if left out."`
}

func (in receiveMessagesInput) wait() time.Duration { return in.Seconds.wait() }

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
	To        string          `json:"to" jsonschema:"The receiving agent; empty if it is for everyone."`
	Content   string          `json:"content" jsonschema:"The message itself."`
	Signal    string          `json:"signal,omitempty" jsonschema:"DONE, PASS or FAIL, of a signal."`
	Timestamp string          `json:"timestamp" jsonschema:"When the message was sent."`
	Metadata  json.RawMessage `json:"metadata,omitempty" jsonschema:"Further facts."`
	Line      int             `json:"line" jsonschema:"Line of the message in the log."`
}

// maxReceivedBytes bounds one answer of receive_messages. A single message is always given whole.
const maxReceivedBytes = 64 << 10

func (s *Server) receiveRecords(ctx context.Context, in receiveMessagesInput) (receivedRecords, string, error) {
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
	result.LastID = in.SinceID
	size := 0
	for e, err := range log.Drain(ctx, string(s.agent), after) {
		if err != nil {
			return result, "", err
		}
		same, err := log.Find(ctx, e.ID)
		if err != nil {
			return result, "", err
		}
		same = slices.DeleteFunc(same, func(other bridge.Entry) bool { return other.Line >= e.Line })
		if slices.ContainsFunc(same, func(earlier bridge.Entry) bool { return earlier.SaysTheSame(e.Record) }) {
			continue // a careless writer appended the record again
		}
		size += len(e.Content) + len(e.Metadata)
		if len(result.Messages) == in.Limit.orDefault() || len(result.Messages) > 0 && size > maxReceivedBytes {
			result.More = true
			break
		}
		result.Messages = append(result.Messages, receivedRecord{
			ID: e.ID, RunID: e.RunID, Type: string(e.Type), From: e.From, To: e.To, Content: e.Content,
			Signal: string(e.Signal), Timestamp: e.Timestamp, Metadata: e.Metadata, Line: e.Line,
		})
		if result.LastID = e.ID; len(same) > 0 {
			result.LastID += lineMark + strconv.Itoa(e.Line)
		}
	}
	return result, receivedText(result), nil
}

// lineMark separates id and line in the name of a record that shares its id with an earlier one.
const lineMark = "@"

// findSince returns the place behind the message that since names: by its id, which means the first
// record that has it, or by its id and line. If since is empty, the place is the beginning.
func (s *Server) findSince(ctx context.Context, log *bridge.Log, since string) (bridge.Cursor, error) {
	if since == "" {
		return "", nil
	}
	var found []bridge.Entry
	if log != nil {
		var err error
		found, err = log.Find(ctx, since)
		if mark := strings.LastIndex(since, lineMark); mark >= 0 && len(found) == 0 && err == nil {
			found, err = log.Find(ctx, since[:mark])
			found = slices.DeleteFunc(found, func(e bridge.Entry) bool { return strconv.Itoa(e.Line) != since[mark+1:] })
		}
		if err != nil {
			return "", err
		}
	}
	if len(found) > 0 {
		return found[0].Cursor(), nil
	}
	return "", &failure.Error{
		Code: "not_found",
		Err:  fmt.Errorf("since_id: no message of the bridge log %s has the id %q", s.bridge.place.Path, since),
		Hint: "give the last_id of an earlier answer, or leave since_id out to receive everything",
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

// statusText writes the status in the layout that AgentPair documents, and below it what it does
// not count.
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
