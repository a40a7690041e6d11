package convert_test

import (
	"fmt"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/convert"
	"github.com/oacp-go/oacp/schema"
)

func ExampleToBridge() {
	records, err := convert.ToBridge(&schema.Message{
		ID: "msg-20260313T1430Z-claude-a8f3", From: "claude", To: []schema.AgentName{"codex"},
		Type: schema.TaskRequest, Priority: schema.P2, CreatedAt: "2026-03-13T14:30:00Z",
		Subject: "Add email validation", Body: schema.TextValue("To the LoginForm, please."),
	}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := records[0]
	fmt.Println(r.Type, r.From, r.To, r.Timestamp)
	fmt.Println(r.Content)
	// Output:
	// task claude codex 2026-03-13T14:30:00Z
	// Add email validation
	//
	// To the LoginForm, please.
}

func ExampleDerive() {
	m, err := convert.Derive(bridge.Record{
		ID:   "74187ff835aa27138a9617894e754430ac33534acd4af790a7358477e8d5eda9",
		Type: bridge.TypeSignal, Signal: bridge.SignalPass, From: "claude", To: "",
		Content: "Looks good", Timestamp: "2024-03-28T10:04:00Z",
	}, []schema.AgentName{"codex"}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.ID, m.Type, m.To, m.Channel, m.Subject)
	// Output:
	// msg-20240328T1004Z-claude-0003a6581347c329 notification [codex] bridge-pass-all Looks good
}
