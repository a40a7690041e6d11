package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/failure"
)

// startSend sends a message with the given additional flags. It returns the id once the message is
// sent, the later output, and the exit status.
func startSend(t *testing.T, c *session, flags ...string) (id string, output *bufio.Scanner, exit <-chan int) {
	t.Helper()
	read, write := io.Pipe()
	sender := *c.Streams
	sender.Out = bufio.NewWriter(write)
	status := make(chan int, 1)
	args := append([]string{"send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x", "--json"}, flags...)
	go func() {
		status <- run(context.WithoutCancel(t.Context()), args, &sender)
		write.Close()
	}()
	output = bufio.NewScanner(read)
	if !output.Scan() {
		t.Fatalf("send printed nothing; exit status %d", <-status)
	}
	var answer struct{ ID string }
	if err := json.Unmarshal(output.Bytes(), &answer); err != nil {
		t.Fatalf("send printed %q: %v", output.Text(), err)
	}
	return answer.ID, output, status
}

func TestWaitForAcknowledgement(t *testing.T) {
	for _, flag := range []string{"--wait", "--wait=ack"} {
		c := newSession(t, "a,b")
		id, output, exit := startSend(t, c, flag)
		c.must(t, "ack", id, "--agent", "b")
		if want := `{"acknowledged":"` + id + `"}`; !output.Scan() || output.Text() != want {
			t.Errorf("%s: printed %q, want %q", flag, output.Text(), want)
		}
		if got := <-exit; got != failure.ExitDone {
			t.Errorf("%s: exit status is %d, want 0", flag, got)
		}
	}
}

func TestWaitForReply(t *testing.T) {
	c := newSession(t, "a,b")
	id, output, exit := startSend(t, c, "--wait=reply")
	c.must(t, "reply", id, "--from", "b", "--body", "The answer.")
	if !output.Scan() {
		t.Fatal("the reply was not printed")
	}
	var answer struct {
		Reply struct{ Body, From string }
		Path  string
	}
	if err := json.Unmarshal(output.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Reply.Body != "The answer." || answer.Reply.From != "b" || answer.Path == "" {
		t.Errorf("the reply is %+v, want that of b", answer)
	}
	if got := <-exit; got != failure.ExitDone {
		t.Errorf("exit status is %d, want 0", got)
	}
}

func TestWaitForReplyAfterAcknowledgement(t *testing.T) {
	c := newSession(t, "a,b")
	id, output, exit := startSend(t, c, "--wait=reply", "--timeout", "500ms")
	c.must(t, "ack", id, "--agent", "b")
	if !output.Scan() || !strings.Contains(output.Text(), `"code":"timeout"`) {
		t.Errorf("printed %q, want that time ran out", output.Text())
	}
	if got := <-exit; got != failure.ExitInVain {
		t.Errorf("exit status is %d, want %d", got, failure.ExitInVain)
	}
}

func TestWaitTooLong(t *testing.T) {
	c := newSession(t, "a,b")
	exit := c.run(t.Context(), "send", "--from", "a", "--to", "b", "--type", "question", "--subject", "s", "--body", "x", "--wait", "--timeout", "1ms")
	if exit != failure.ExitInVain {
		t.Errorf("exit status is %d, want %d", exit, failure.ExitInVain)
	}
	if got := c.stdout.String(); !strings.HasPrefix(got, "sent ") {
		t.Errorf("printed %q, want that the message is sent", got)
	}
	if got := c.stderr.String(); !strings.Contains(got, "is sent, but there was no acknowledgement within 1ms") {
		t.Errorf("standard error is %q, want it to say that time ran out", got)
	}
	if out := c.must(t, "inbox", "--agent", "b"); !strings.Contains(out, "1 pending") {
		t.Errorf("the inbox is %q, want the message in it", out)
	}
}
