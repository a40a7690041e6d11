package main

import (
	"testing"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/turn"
	"github.com/oacp-go/oacp/turn/track"
)

// TestRunLine checks the lines that run prints, beside those of the scripts.
func TestRunLine(t *testing.T) {
	at := time.Date(2026, 3, 13, 14, 30, 5, 0, time.UTC)
	bash := agent.Refusal{Tool: "Bash", What: "rm \x1b[2J", Count: 1, Allow: agent.PermitAll}
	tests := []struct {
		event turn.Event
		want  string
	}{
		{
			turn.Event{Kind: turn.EventInterrupted, Envelope: track.Envelope{Key: track.Key{ID: "msg-1"}, Subject: "Port?"}, Reason: "no login", Err: &agent.APIError{Kind: agent.NotLoggedIn}},
			"stopped       msg-1  Port?: the agent is unavailable",
		},
		{
			turn.Event{Kind: turn.EventUnavailable, Reason: "no login", RetryAt: at.Add(time.Minute)},
			"unavailable   (again at 14:31:05Z)  no login",
		},
		{
			turn.Event{Kind: turn.EventStarted, Envelope: track.Envelope{File: "a.yaml"}, Attempt: 2},
			"turn          a.yaml  (turn 2)",
		},
		{
			turn.Event{Kind: turn.EventSucceeded, Envelope: track.Envelope{Key: track.Key{ID: "msg-1"}}, Usage: agent.Usage{Turns: 1, InputTokens: 40_000, OutputTokens: 1500, CostUSD: 1.234}},
			"done          msg-1  (1 model turn, 41k tokens, $1.23)",
		},
		{
			turn.Event{
				Kind: turn.EventFailed, Envelope: track.Envelope{Key: track.Key{ID: "msg-1"}}, Usage: agent.Usage{OutputTokens: 7}, RetryAt: at, Reason: "it failed: no host",
				Refused: []agent.Refusal{bash, {Tool: "WebFetch", Count: 3}, bash, bash, bash},
			},
			`failed        msg-1  (7 tokens, again at 14:30:05Z); refused Bash "rm \x1b[2J" (needs --allow all), WebFetch 3 times, ` +
				`Bash "rm \x1b[2J" (needs --allow all), 2 more: it failed: no host`,
		},
	}
	p := &runPrinter{runCall: &runCall{call: &call{Streams: &command.Streams{Getenv: func(string) string { return "" }}}}}
	for _, test := range tests {
		test.event.At = at
		if got, want := p.line(test.event), "14:30:05Z  "+test.want; got != want {
			t.Errorf("line\n%s\nwant\n%s", got, want)
		}
	}
	p.OutTerminal = true
	event := turn.Event{Kind: turn.EventAnswered, At: at, Envelope: track.Envelope{Key: track.Key{ID: "msg-20260313T1430Z-ann-ab12"}}, Sent: "msg-20260313T1431Z-codex-cd34"}
	if got, want := p.line(event), at.Local().Format(time.TimeOnly)+"  answered      ab12  with cd34"; got != want {
		t.Errorf("on a terminal, line\n%s\nwant\n%s", got, want)
	}
}
