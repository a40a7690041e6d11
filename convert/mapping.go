package convert

import (
	"slices"
	"strings"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

// Row is a line of the mapping between messages and records.
type Row struct {
	// Message is the message type.
	Message schema.Type
	// Record and Signal are the record's type and signal. Both are empty in the row for everything
	// that AgentPair's bridge reference does not list.
	Record bridge.Type
	Signal bridge.Signal
	// Channel is empty in the rows for messages on their way to the bridge. In the rows for records
	// it is the channel of the derived message; broadcastSuffix follows it for a broadcast.
	Channel string
}

// broadcastSuffix ends the channel of a message that was a broadcast in the bridge.
const broadcastSuffix = "-all"

// mapping has a row for each message type, then the rows for records that carry no message.
var mapping = []Row{
	{schema.TaskRequest, bridge.TypeTask, "", ""},
	{schema.FollowUp, bridge.TypeTask, "", ""},
	{schema.Handoff, bridge.TypeTask, "", ""},
	{schema.BrainstormRequest, bridge.TypeTask, "", ""},
	{schema.ReviewRequest, bridge.TypeTask, "", ""},
	{schema.Question, bridge.TypeChat, "", ""},
	{schema.BrainstormFollowup, bridge.TypeChat, "", ""},
	{schema.Notification, bridge.TypeResult, "", ""},
	{schema.ReviewAddressed, bridge.TypeResult, "", ""},
	{schema.ReviewFeedback, bridge.TypeReview, "", ""},
	{schema.ReviewLGTM, bridge.TypeSignal, bridge.SignalPass, ""},
	{schema.HandoffComplete, bridge.TypeSignal, bridge.SignalDone, ""},

	{schema.TaskRequest, bridge.TypeTask, "", "bridge-task"},
	{schema.Notification, bridge.TypeResult, "", "bridge-result"},
	{schema.ReviewFeedback, bridge.TypeReview, "", "bridge-review"},
	{schema.Question, bridge.TypeChat, "", "bridge-chat"},
	{schema.Notification, bridge.TypeSignal, bridge.SignalDone, "bridge-done"},
	{schema.Notification, bridge.TypeSignal, bridge.SignalPass, "bridge-pass"},
	{schema.Notification, bridge.TypeSignal, bridge.SignalFail, "bridge-fail"},
	{schema.Notification, "", "", "bridge-other"},
}

// Mapping returns a row for each message type, then the rows for records that carry no message.
func Mapping() []Row { return slices.Clone(mapping) }

// rowOfRecord returns the row of a record; the last row is for records that no other row covers.
func rowOfRecord(t bridge.Type, signal bridge.Signal) Row {
	row, ok := findRow(func(row Row) bool { return row.Channel != "" && row.Record == t && row.Signal == signal })
	if !ok {
		return mapping[len(mapping)-1]
	}
	return row
}

// rowOfChannel returns the row for the messages on a channel, and reports whether they were broadcasts. The
// row of a notice has the type of the notice.
func rowOfChannel(channel string) (row Row, broadcast, ok bool) {
	name, notice := strings.CutSuffix(channel, schema.NoticeSuffix)
	name, broadcast = strings.CutSuffix(name, broadcastSuffix)
	row, ok = findRow(func(row Row) bool { return name != "" && row.Channel == name })
	if notice {
		row.Message = schema.Notification
	}
	return row, broadcast, ok
}

func findRow(matches func(Row) bool) (Row, bool) {
	if i := slices.IndexFunc(mapping, matches); i >= 0 {
		return mapping[i], true
	}
	return Row{}, false
}

// documented reports whether the row is for a type and signal that the bridge reference lists.
func (r Row) documented() bool { return r.Record != "" }
