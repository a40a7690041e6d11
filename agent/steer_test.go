package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// TestSteer gives a text to a turn of the real programs, before a tool call and during the last answer of the model.
func TestSteer(t *testing.T) {
	t.Parallel()
	for _, last := range []bool{false, true} {
		name := map[bool]string{false: "before a tool", true: "during the last answer"}[last]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if last && !*thorough {
				t.Skip("only with -thorough")
			}
			withPrograms(t, func(t *testing.T, p realProgram) {
				if acpWriters[p.name] != nil {
					t.Skip("the Agent Client Protocol has no way to add to a turn")
				}
				hold := make(chan struct{})
				var mu sync.Mutex
				asked := 0
				script := func(_ context.Context, r modelstub.Request) modelstub.Reply {
					mu.Lock()
					defer mu.Unlock()
					if asked++; asked > 1 {
						return modelstub.Reply{Text: "as you wish"}
					}
					reply := modelstub.Reply{Text: "the first answer"}
					if !last {
						reply = p.shell("echo hi")
					}
					reply.Hold = hold
					return reply
				}
				driver, server := p.create(t, script, func(o *Options) { o.Allow = PermitAll })
				started(t, driver)
				if err := driver.Steer(t.Context(), "too early"); !errors.Is(err, errNoSteering) && p.name == "claude" || err == nil {
					t.Errorf("between turns, Steer = %v", err)
				}
				steered := make(chan error, 1)
				go func() {
					server.Await(t, func(modelstub.Request) bool { return true })
					steered <- driver.Steer(t.Context(), "the other port")
					close(hold)
				}()
				result := turn(t, driver, "which port?")
				if err := <-steered; err != nil {
					t.Errorf("Steer = %v", err)
				}
				if result.Text != "as you wish" {
					t.Errorf("the answer is %q", result.Text)
				}
				if mu.Lock(); asked != 2 {
					t.Errorf("the model was asked %d times, want twice", asked)
				}
				mu.Unlock()
				requests := server.Requests()
				if body := string(requests[len(requests)-1].Body); !strings.Contains(body, "the other port") {
					t.Error("the model did not get the text")
				}
				if next := turn(t, driver, "and now?"); next.Text != "as you wish" {
					t.Errorf("the next turn answers %q", next.Text)
				}
			})
		})
	}
}

// TestSteerDies checks that the second try of a turn has what was added to the first.
func TestSteerDies(t *testing.T) {
	t.Parallel()
	var prompts []string
	driver := &dying{turn: func(request Request) (Result, error) {
		prompts = append(prompts, request.Prompt)
		if len(prompts) == 1 {
			return Result{}, &DiedError{Program: "claude", Err: errors.New("killed"), accepted: true, added: "\n\nmore"}
		}
		return Result{Text: "ok"}, nil
	}}
	if _, err := RunTurn(t.Context(), driver, Request{Prompt: "first"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{"first", afterDeath + "first\n\nmore"}; !slices.Equal(prompts, want) {
		t.Errorf("the prompts are %q, want %q", prompts, want)
	}
}

type dying struct {
	Driver
	turn func(Request) (Result, error)
}

// TestSteerUnanswered checks that a program that does not answer cannot hold the caller: neither beyond the end of its
// context, nor beyond the limit. A late answer is not taken for the next one.
func TestSteerUnanswered(t *testing.T) {
	defer func(limit time.Duration) { answerLimit = limit }(answerLimit)
	for _, limit := range []time.Duration{time.Minute, 50 * time.Millisecond} {
		driver := newFakeCodex(t, "ignores steering")
		started(t, driver)
		answerLimit = limit
		begun, steered := make(chan struct{}, 9), make(chan error, 1)
		ended := errors.New("the runner ends")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-begun
			if limit == time.Minute {
				go cancel(ended)
			}
			err := driver.Steer(ctx, "more")
			cancel(ended)
			steered <- err
		}()
		_, err := driver.Turn(ctx, Request{Prompt: "go"}, func(Event) { begun <- struct{}{} })
		if steerErr := <-steered; limit == time.Minute && !errors.Is(steerErr, ended) || limit < time.Minute && !errors.Is(steerErr, ErrUnavailable) {
			t.Errorf("limit %v: Steer = %v", limit, steerErr)
		}
		if !errors.Is(err, ended) {
			t.Errorf("limit %v: Turn = %v, want its context's cause", limit, err)
		}
		stopped(t, driver)
		answerLimit = time.Minute
	}
}

func (d *dying) Turn(_ context.Context, request Request, _ func(Event)) (Result, error) {
	return d.turn(request)
}

// TestSteerTwoResults checks a turn in which claude takes the added text only after its first result: the turn ends with
// the second, unless the first is a failure.
func TestSteerTwoResults(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"steered", "steered, fails"} {
		driver := newFakeClaude(t, kind)
		started(t, driver)
		begun, steered := make(chan struct{}, 9), make(chan error, 1)
		go func() {
			<-begun
			steered <- driver.Steer(t.Context(), "more")
		}()
		result, err := driver.Turn(t.Context(), Request{Prompt: "go"}, func(Event) { begun <- struct{}{} })
		if steerErr := <-steered; steerErr != nil {
			t.Errorf("%s: Steer = %v", kind, steerErr)
		}
		if kind == "steered, fails" {
			if _, failed := errors.AsType[*ReportedError](err); !failed {
				t.Errorf("Turn = %v, want the failure that the program reports", err)
			}
			continue
		}
		if err != nil || result.Text != "two" || result.Usage.InputTokens != 15 || len(result.Refused) != 1 {
			t.Errorf("Turn = %+v, %v; want the second answer, with the usage and the refusals of both", result, err)
		}
	}
}
