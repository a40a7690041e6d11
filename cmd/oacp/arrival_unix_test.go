//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// BenchmarkArrivalToTurn measures from before the rename into the inbox to the first thing that the
// agent's process does, with a real oacp run. The agent is a shell, whose own start is part of it.
func BenchmarkArrivalToTurn(b *testing.B) {
	for _, lying := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("lying=%d", lying), func(b *testing.B) {
			r := startArrivals(b, lying)
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				from, to := r.stage()
				b.StartTimer()
				began := time.Now()
				if err := os.Rename(from, to); err != nil {
					b.Fatal(err)
				}
				r.awaitStart()
				took = append(took, time.Since(began))
				b.StopTimer()
				r.awaitEvent("acknowledged")
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// arrivals is an inbox whose messages a process handles.
type arrivals struct {
	b         *testing.B
	workspace *mailbox.Workspace
	starts    *os.File
	events    *bufio.Scanner
	staged    int
}

func startArrivals(b *testing.B, lying int) *arrivals {
	b.Helper()
	dir := b.TempDir()
	if _, err := project.Init(dir, project.InitOptions{Agents: []schema.AgentName{"claude", "codex", "gemini"}}); err != nil {
		b.Fatal(err)
	}
	w, err := mailbox.Open(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Close() })
	r := &arrivals{b: b, workspace: w}
	for range lying {
		from, to := r.stageFrom("gemini")
		if err := os.Rename(from, to); err != nil {
			b.Fatal(err)
		}
	}
	pipe := filepath.Join(w.Dir(), "starts")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		b.Fatal(err)
	}
	if r.starts, err = os.OpenFile(pipe, os.O_RDWR, 0); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.starts.Close() })
	command := exec.CommandContext(b.Context(), "oacp", "run", "--dir", w.Dir(), "--agent", "codex", "--allow-from", "claude",
		"--max-pair-turns", "-1", "--json", "--", "sh", "-c", `echo >>"$0"`, pipe)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
	})
	r.events = bufio.NewScanner(stdout)
	for range lying {
		r.awaitEvent("held")
	}
	// The first one waits for the process to start.
	from, to := r.stage()
	if err := os.Rename(from, to); err != nil {
		b.Fatal(err)
	}
	r.awaitStart()
	r.awaitEvent("acknowledged")
	return r
}

func (r *arrivals) stage() (from, to string) { return r.stageFrom("claude") }

// stageFrom makes a message that only needs to be renamed.
func (r *arrivals) stageFrom(sender schema.AgentName) (from, to string) {
	r.b.Helper()
	r.staged++
	// Random ids of four characters would repeat.
	id := schema.ID(fmt.Sprintf("msg-20260313T1430Z-%s-%010d", sender, r.staged))
	m, data, _, err := r.workspace.Compose(schema.Message{
		ID: id, From: sender, To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: fmt.Sprint("Arriving ", r.staged), Body: schema.TextValue("x"),
	}, nil)
	if err != nil {
		r.b.Fatal(err)
	}
	name, err := m.LongFileName()
	if err != nil {
		r.b.Fatal(err)
	}
	for _, file := range []string{schema.BoxPath("codex", mailbox.Inbox) + "/." + name, schema.BoxPath(sender, mailbox.Outbox) + "/" + name} {
		if _, err := r.workspace.AddFile(file, data); err != nil {
			r.b.Fatal(err)
		}
	}
	inbox := r.workspace.BoxPath("codex", mailbox.Inbox)
	return filepath.Join(inbox, "."+name), filepath.Join(inbox, name)
}

func (r *arrivals) awaitStart() {
	var one [1]byte
	if _, err := r.starts.Read(one[:]); err != nil {
		r.b.Fatal(err)
	}
}

func (r *arrivals) awaitEvent(kind string) {
	r.b.Helper()
	for r.events.Scan() {
		if strings.Contains(r.events.Text(), `"event":"`+kind+`"`) {
			return
		}
	}
	r.b.Fatalf("oacp run ended before it reported %s: %v", kind, r.events.Err())
}
