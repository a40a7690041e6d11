package mailbox_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// A program makes a workspace, sends a message, and reads it as its
// recipient.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "oacp-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	agents := []schema.AgentName{"claude", "codex"}
	if _, err := project.Init(folder, project.InitOptions{Agents: agents, Now: time.Now()}); err != nil {
		log.Fatal(err)
	}
	w, err := mailbox.Open(folder, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()

	receipt, err := w.Send(ctx, schema.Message{
		From: "claude", To: []schema.AgentName{"codex"},
		Type: schema.TaskRequest, Subject: "Add rate limiting",
		Body: schema.TextValue("Token bucket, 100 requests a minute per key."),
	}, nil)
	if err != nil {
		log.Fatal(err) // nothing was sent
	}
	fmt.Println("delivered to", len(receipt.Inboxes), "inbox")

	entries, err := w.Inbox(ctx, "codex")
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		if e.Err != nil {
			continue // a bad file never hides the others
		}
		fmt.Println(e.Message.Priority, e.Message.From, e.Message.Subject)
		if err := w.Acknowledge(e); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// delivered to 1 inbox
	// P2 claude Add rate limiting
}
