package bridge_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/oacp-go/oacp/bridge"
)

func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "runs")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	repository, err := bridge.RepositoryID("/home/user/project")
	if err != nil {
		log.Fatal(err)
	}
	run, err := bridge.NewRun(root, repository)
	if err != nil {
		log.Fatal(err)
	}
	records, err := run.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // the second is the first, sent again
		receipt, err := records.Send(ctx, bridge.Record{
			Type: bridge.TypeTask, From: "claude", To: "codex", Content: "Implement login form",
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(receipt.Line, receipt.Duplicate)
	}
	for entry, err := range records.Drain(ctx, "codex", "") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.From, entry.Type, entry.Content)
	}
	if err := records.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 false
	// 1 true
	// claude task Implement login form
}
