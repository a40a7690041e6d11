package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

// addBridgeTools offers the three tools of AgentPair's bridge.
func (s *Server) addBridgeTools() {
	mail := ""
	if s.workspace != nil {
		mail = " Not mail: that goes by send_message."
	}
	addTool(s, "send_to_agent",
		"Append a message to the bridge log, once even if the call is repeated."+mail,
		mcp.ToolAnnotations{IdempotentHint: true}, s.sendToAgent)
	addTool(s, "receive_messages",
		"Get the messages of the bridge log to you or to everyone, oldest first, or wait for some."+mail,
		reads(), s.awaitRecords)
	addTool(s, "bridge_status",
		"Count the messages in the bridge log by agent and type, and the signals."+mail,
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
	MessageType bridge.Type   `json:"message_type" jsonschema:"task asks for work, result is work done, review is feedback on it, signal ends or judges it, chat is anything else."`
	Content     string        `json:"content" jsonschema:"The message."`
	Signal      bridge.Signal `json:"signal,omitempty" jsonschema:"With message_type signal, and only then: DONE: the work is complete, PASS approves it, FAIL rejects it."`
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
	Others int    `json:"others,omitempty" jsonschema:"How many more agents and types there are, which are not listed."`
	Log    string `json:"log" jsonschema:"Path of the log."`
	RunID  int    `json:"run_id" jsonschema:"Number of the run that new messages belong to."`
}

func (s *Server) bridgeStatus(ctx context.Context, _ struct{}) (bridgeStatus, string, error) {
	result := bridgeStatus{Log: cut(s.bridge.place.Path, frameTokens), RunID: s.bridge.place.Run.ID}
	log, err := s.bridge.reading()
	if err == nil && log != nil {
		result.Status, err = log.Status(ctx)
	}
	agents, types := len(result.ByAgent), len(result.ByType)
	result.ByAgent, result.ByType = mostOf(result.ByAgent), mostOf(result.ByType)
	result.Others = agents - len(result.ByAgent) + types - len(result.ByType)
	return result, statusText(result), err
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
	if r.Others > 0 {
		fmt.Fprintf(&out, "  Other Agents and Types: %d\n", r.Others)
	}
	if r.SkippedLines > 0 {
		fmt.Fprintf(&out, "  Skipped Lines: %d\n", r.SkippedLines)
	}
	fmt.Fprintf(&out, "  Log: %s\n", oneLine(r.Log))
	return out.String()
}

// compareTypes sorts the documented types first, in their order.
func compareTypes(a, b bridge.Type) int {
	rank := func(t bridge.Type) uint { return uint(slices.Index(bridge.Types(), t)) } // unknown: the largest
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}
