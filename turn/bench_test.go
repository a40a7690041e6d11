package turn

import (
	"fmt"
	"testing"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// benchmarkTurns handles 200 messages with every write synced.
func benchmarkTurns(b *testing.B, c Config) {
	const messages = 200
	c.Agent, c.Once, c.MaxPairTurns = "codex", true, Unlimited
	for b.Loop() {
		b.StopTimer()
		dir := newWorkspace(b).Dir()
		w, err := mailbox.Open(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		drafts := make([]schema.Message, messages)
		for i := range drafts {
			drafts[i] = question(fmt.Sprint(i))
		}
		send(b, w, drafts...)
		r, err := New(w, c)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := r.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(messages*b.N)/b.Elapsed().Seconds(), "turns/s")
}

func BenchmarkTurns(b *testing.B) {
	command := func(schema.ConversationID, string) agent.Driver {
		return agent.NewExec(agent.Options{Command: []string{"true"}})
	}
	echo := func(schema.ConversationID, string) agent.Driver { return agent.NewEcho() }
	for _, bench := range []struct {
		name   string
		config Config
	}{
		{"command", Config{NewDriver: command}},
		{"command-parallel", Config{NewDriver: command, Parallel: 8}},
		{"echo", Config{NewDriver: echo}},
		{"echo-parallel", Config{NewDriver: echo, Parallel: 8}},
		{"echo-reply", Config{NewDriver: echo, Reply: true, Input: InputBody}},
	} {
		b.Run(bench.name, func(b *testing.B) { benchmarkTurns(b, bench.config) })
	}
}
