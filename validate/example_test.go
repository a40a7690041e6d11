package validate_test

import (
	"context"
	"fmt"
	"os"

	"github.com/oacp-go/oacp/validate"
)

const file = `id: msg-20260313T1430Z-claude-a8f3
from: claude
to: codex
type: task_request
priority: p2
created_at_utc: 2026-03-13T14:30:00Z
subject: Look at the failing test
body: TestQueueDrain fails once in a hundred runs.
`

// Bytes says what is wrong with a file, where, and what to do.
func ExampleBytes() {
	_, findings := validate.Bytes("a.yaml", []byte(file))
	for _, found := range findings {
		fmt.Println(found)
		fmt.Println("fix:", found.Fix)
	}
	// Output:
	// a.yaml:5:11: priority: "p2" is not a priority [priority]
	// fix: did you mean P2?
}

// Files validates a workspace, and writes what it found in the form that GitHub Actions turns into
// annotations.
func ExampleFiles() {
	result, err := validate.Files(context.Background(), []string{"../testdata/messages/valid"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := result.WriteGitHub(os.Stdout); err != nil {
		fmt.Println(err)
	}
	fmt.Println(result.Count())
	// Output:
	// 15 files
}
