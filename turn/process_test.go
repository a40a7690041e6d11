package turn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/oacp-go/oacp/agent"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// The test binary runs itself as a Runner that the test kills. These environment variables set its
// role, its workspace and the script of its agent.
const (
	childRole  = "OACP_TEST_CHILD"
	childDir   = "OACP_TEST_DIR"
	childAgent = "OACP_TEST_AGENT"
)

// killedConfig configures the Runner that the test kills.
var killedConfig = Config{
	Agent: "codex", Reply: true, Once: true, Parallel: 3, MaxPairTurns: Unlimited,
	Timeout: 200 * time.Millisecond, firstRetry: time.Millisecond, lastRetry: 10 * time.Millisecond,
}

// The roles of the Runner that the test kills: roleRun uses killedConfig, roleWait allows each turn
// a minute. A process with roleHold takes the lock at the path instead, and keeps it until its end.
const (
	roleRun  = "run"
	roleWait = "wait"
	roleHold = "hold"
)

// runChild runs a Runner on the inbox of codex and prints a line for each event.
func runChild(role string) int {
	config := killedConfig
	switch role {
	case roleRun:
	case roleWait:
		config.Timeout = time.Minute
	case roleHold:
		return holdLock(os.Getenv(childDir))
	default:
		fmt.Fprintln(os.Stderr, "no such role:", role)
		return 2
	}
	w, err := mailbox.Open(os.Getenv(childDir), &mailbox.Options{NoSync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	command := []string{"sh", os.Getenv(childAgent)}
	config.NewDriver = func(schema.ConversationID, string) agent.Driver {
		return agent.NewExec(agent.Options{Command: command, Grace: 10 * time.Millisecond})
	}
	config.Observe = func(e Event) {
		if e.Kind == EventProblem || e.Kind == EventUnavailable {
			fmt.Fprintln(os.Stderr, e.Kind, e.Reason)
		}
		fmt.Println(e.Kind)
	}
	r, err := New(w, config)
	if err == nil {
		err = r.Run(context.Background())
	}
	var given *DeadLettersError
	if err != nil && !errors.As(err, &given) {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

// holdLock takes a lock, says so, and keeps it for an hour.
func holdLock(path string) int {
	if err := durable.NewLock(path).Lock(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Println("locked")
	time.Sleep(time.Hour)
	return 0
}
