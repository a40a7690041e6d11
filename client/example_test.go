package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/oacp-go/oacp/client"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// An agent that answers each message exactly once, even if it is killed at any moment and started again: a message that a
// killed process was given is new again, and an answer that is sent is not sent again.
func Example_agent() {
	ctx, dir := context.Background(), newProject()
	defer os.RemoveAll(dir)
	send(ctx, dir, "claude", "codex", schema.Question, "Which port?")

	agent := open(dir, "codex")
	defer agent.Close()
	for {
		request, err := agent.Next(ctx, client.Filter{Timeout: time.Millisecond})
		if errors.Is(err, watch.ErrTimeout) {
			break // a real agent waits without a timeout
		} else if err != nil {
			log.Fatal(err)
		}
		answer := request.Draft()
		answer.Body, answer.Acknowledge = schema.TextValue("8080"), true
		if _, err := request.Answer(ctx, answer); err != nil {
			log.Fatal(client.Explain(err).Code, err)
		}
		fmt.Printf("answered %q of %s\n", request.Message.Subject, request.Message.From)
	}
	// Output: answered "Which port?" of claude
}

// A CI job that asks for a review and waits for it. If the job runs again, it asks only once, because its key is the same.
func Example_review() {
	ctx, dir := context.Background(), newProject()
	defer os.RemoveAll(dir)
	job, w := openIn(dir, "claude")
	defer w.Close()
	draft := client.Draft{Once: "build-7", Message: schema.Message{
		To: []schema.AgentName{"codex"}, Type: schema.ReviewRequest, Subject: "Review of build 7", Body: schema.TextValue("See the branch."),
	}}
	receipt, err := job.Send(ctx, draft)
	if err != nil {
		log.Fatal(err)
	}
	go review(ctx, dir, "codex", "Looks good.")
	limited, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	arrived, err := track.Await(limited, w, receipt.Message(), track.GoalReply, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(arrived.Message.From, arrived.Message.Type, strings.TrimSpace(arrived.Message.BodyText()))
	// Output: codex review_feedback Looks good.
}

// What an agent owes, and what others owe it.
func Example_owed() {
	ctx, dir := context.Background(), newProject()
	defer os.RemoveAll(dir)
	send(ctx, dir, "claude", "codex", schema.Question, "Which port?")
	send(ctx, dir, "codex", "claude", schema.TaskRequest, "Rename the package")
	_, w := openIn(dir, "codex")
	defer w.Close()
	owed, err := track.OwedBy(ctx, w, "codex")
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range owed.Mine {
		fmt.Printf("%s waits for %q: %s\n", r.From, r.Subject, r.Stage)
	}
	for _, r := range owed.Theirs {
		fmt.Printf("%s owes %q: %s\n", r.To, r.Subject, r.Stage)
	}
	// Output:
	// claude waits for "Which port?": waiting
	// claude owes "Rename the package": waiting
}

// A watcher that reports what arrives, and with its cursor reports nothing again. It takes nothing: the agent gets all of it.
func Example_watch() {
	ctx, dir := context.Background(), newProject()
	defer os.RemoveAll(dir)
	send(ctx, dir, "claude", "codex", schema.Question, "Which port?")
	_, w := openIn(dir, "codex")
	defer w.Close()
	for range 2 {
		watcher, err := watch.New([]watch.Target{{Workspace: w, Agent: "codex"}}, &watch.Options{Cursor: true, StateID: "bell"})
		if err != nil {
			log.Fatal(err)
		}
		for event, err := range watcher.Scan(ctx) { // Events goes on
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(event.Kind, event.Message.Subject)
		}
		if err := watcher.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output: new_message Which port?
}

// newProject makes a workspace for claude and codex.
func newProject() (dir string) {
	dir, err := os.MkdirTemp("", "oacp-example-")
	if err == nil {
		_, err = project.Init(dir, project.InitOptions{Agents: []schema.AgentName{"claude", "codex"}, Now: time.Now()})
	}
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

func open(dir string, agent schema.AgentName) *client.Client {
	c, err := client.Open(client.Options{Dir: dir, Agent: agent})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// openIn is open with the workspace, for the packages that read it.
func openIn(dir string, agent schema.AgentName) (*client.Client, *mailbox.Workspace) {
	w, err := client.OpenWorkspace(project.Place{Dir: dir}, nil, false)
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.As(w, agent, client.Caller{PID: os.Getpid()})
	if err != nil {
		log.Fatal(err)
	}
	return c, w
}

func send(ctx context.Context, dir string, from, to schema.AgentName, what schema.Type, subject string) {
	c := open(dir, from)
	defer c.Close()
	m := schema.Message{To: []schema.AgentName{to}, Type: what, Subject: subject, Body: schema.TextValue("?")}
	if _, err := c.Send(ctx, client.Draft{Message: m}); err != nil {
		log.Fatal(err)
	}
}

// review answers the next message.
func review(ctx context.Context, dir string, agent schema.AgentName, text string) {
	c := open(dir, agent)
	defer c.Close()
	request, err := c.Next(ctx, client.Filter{})
	if err != nil {
		log.Fatal(err)
	}
	answer := request.Draft()
	answer.Body, answer.Acknowledge = schema.TextValue(text), true
	if _, err := request.Answer(ctx, answer); err != nil {
		log.Fatal(err)
	}
}
