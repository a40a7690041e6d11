package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

// openLog opens a log when it is first used.
type openLog struct {
	place bridge.Location
	warn  func(error)

	mu  sync.Mutex
	log *bridge.Log
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

// String is the text that AgentPair documents.
func (r sentRecord) String() string {
	if r.Duplicate {
		return fmt.Sprintf("Message duplicate (already sent): id=%s\nIt is in the log since %s, at line %d.", r.ID, r.Timestamp, r.Line)
	}
	return "Message sent: id=" + r.ID
}

func (s *Server) sendToAgent(ctx context.Context, in sendToAgentInput) (sentRecord, error) {
	record := bridge.Record{
		From: string(s.agent), To: in.To, Type: in.MessageType, Content: in.Content, Signal: in.Signal,
	}
	if err := s.checkRecord(record); err != nil {
		return sentRecord{}, err
	}
	log, err := s.bridge.open()
	if err != nil {
		return sentRecord{}, err
	}
	receipt, err := log.Send(ctx, record)
	if err == nil {
		err = receipt.Conflict(record)
	}
	return sentRecord{receipt.ID, receipt.Duplicate, receipt.RunID, receipt.Line, receipt.Timestamp}, err
}

// checkRecord returns the errors that a sender has to correct, before anything is written.
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

func (s *Server) bridgeStatus(ctx context.Context, _ struct{}) (bridgeStatus, error) {
	result := bridgeStatus{Log: cut(s.bridge.place.Path, frameTokens), RunID: s.bridge.place.Run.ID}
	log, err := s.bridge.open()
	if err == nil {
		result.Status, err = log.Status(ctx)
	}
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

// String is the text in the layout that AgentPair documents, and below it what that does not count.
func (r bridgeStatus) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Bridge Status:\n  Total Messages: %d\n  Done Signal: %t\n  Pass Count: %d\n  Fail Count: %d\n",
		r.TotalMessages, r.HasDoneSignal, r.PassCount, r.FailCount)
	out.WriteString("  Messages by Agent:\n")
	for _, agent := range slices.Sorted(maps.Keys(r.ByAgent)) {
		fmt.Fprintf(&out, "    %s: %d\n", oneLine(agent), r.ByAgent[agent])
	}
	out.WriteString("  Messages by Type:\n")
	// The documented types come first, in their order. The index of others is -1, which is the largest rank.
	rank := func(t bridge.Type) uint { return uint(slices.Index(bridge.Types(), t)) }
	for _, t := range slices.SortedFunc(maps.Keys(r.ByType), func(a, b bridge.Type) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	}) {
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

// oneLine escapes every character that could make a text more than a part of its line: what other
// agents wrote must not look like something that the server says.
func oneLine(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), `\\`, `\`)
}
