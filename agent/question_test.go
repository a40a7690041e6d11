package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/modelstub"
)

// holdOut is an Approver that says what it was asked and answers nothing until
// no answer is wanted any more.
func holdOut(asked chan<- Approval) Approver {
	return func(ctx context.Context, approval Approval) Decision {
		asked <- approval
		<-ctx.Done()
		return Decision{Allow: true}
	}
}

// TestInterruptWhileAsking interrupts a turn that waits for an approval.
func TestInterruptWhileAsking(t *testing.T) {
	withPrograms(t, func(t *testing.T, p program) {
		if !p.asks {
			t.Skip("asks nobody")
		}
		asked := make(chan Approval, 1)
		script := func(_ context.Context, request modelstub.Request) modelstub.Reply {
			if request.Prompt != "make a file" {
				return modelstub.Reply{Text: "still here"}
			}
			return p.shell("touch there")
		}
		driver, server := p.create(t, script, demands{approve: holdOut(asked)})
		started(t, driver)
		process := p.running(driver)
		interrupted := make(chan error, 1)
		go func() {
			<-asked
			interrupted <- driver.Interrupt(context.Background())
		}()
		if _, err := driver.Turn(impatient(t), Request{Prompt: "make a file"}, nil); !errors.Is(err, ErrInterrupted) {
			t.Errorf("Turn = %v, want ErrInterrupted", err)
		}
		if err := <-interrupted; err != nil {
			t.Errorf("Interrupt = %v, want no error", err)
		}
		if got := len(server.Requests()); got != 1 {
			t.Errorf("the model was asked %d times, want once: an interrupted turn does not go on", got)
		}
		if result := turn(t, driver, "and now?"); result.Text != "still here" || p.running(driver) != process {
			t.Errorf("result %+v, want the next answer of the same program", result)
		}
	})
}

// TestTakenBack: a program that wants no answer any more ends the context of
// whoever is asked.
func TestTakenBack(t *testing.T) {
	claude, codex := newFakeClaude(t, "takes back"), newFakeCodex(t, "takes back")
	claude.patience, codex.patience = 50*time.Millisecond, 50*time.Millisecond
	for _, test := range []struct {
		name    string
		driver  Driver
		approve *Approver
		now     func() // has the program take its question back
	}{
		{"claude", claude, &claude.options.approve, func() { claude.process.send([]byte(`{"type":"now"}` + "\n")) }},
		{"codex", codex, &codex.options.approve, func() { codex.server.send([]byte(`{"method":"now"}` + "\n")) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			*test.approve = func(ctx context.Context, _ Approval) Decision {
				test.now()
				<-ctx.Done()
				_ = test.driver.Interrupt(ctx) // never fails; the program is deaf to it
				return Decision{Allow: true}
			}
			started(t, test.driver)
			if _, err := test.driver.Turn(impatient(t), Request{Prompt: "go"}, nil); !errors.Is(err, ErrInterrupted) {
				t.Errorf("Turn = %v, want ErrInterrupted", err)
			}
		})
	}
}

// TestQuestions: what was taken back, or was open at the end, gets no answer.
func TestQuestions(t *testing.T) {
	q := newQuestions(t.Context())
	answers := make(chan string, 4)
	send := func(line []byte) { answers <- string(line) }
	wait := func(ctx context.Context) []byte {
		<-ctx.Done()
		return []byte("waited")
	}
	q.ask("at once", func(context.Context) []byte { return []byte("at once") }, send)
	if got := <-answers; got != "at once" {
		t.Errorf("answer %q, want that to the first question", got)
	}
	q.ask("taken back", wait, send)
	if !q.withdraw("taken back") || q.withdraw("taken back") || q.withdraw("at once") {
		t.Error("questions were taken back that were not open, or not one that was")
	}
	q.ask("refused", wait, send)
	q.refuse()
	if got := <-answers; got != "waited" {
		t.Errorf("answer %q, want that to the refused question", got)
	}
	q = newQuestions(t.Context())
	q.ask("open at the end", wait, send)
	q.end()
	if len(answers) > 0 {
		t.Errorf("answer %q, want none", <-answers)
	}
}
