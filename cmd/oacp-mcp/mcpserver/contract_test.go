package mcpserver_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// contractProgram makes this test binary oacp-contract, by the name under which it is started.
const contractProgram = "oacp-contract"

// installContract puts the program oacp-contract on the PATH.
func installContract(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program is a link")
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(own, filepath.Join(folder, contractProgram)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
}

// TestContracts checks that the tools that send refuse a body that does not fit the workspace's
// schemas, and that numbers in an object count as numbers.
func TestContracts(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // a program that is installed is not the one to test
	r := newRoom(t, "claude", "codex")
	folder := filepath.Join(r.workspace.Dir(), "schemas")
	const text = `{"type": "object", "required": ["line"], "properties": {"line": {"type": "integer", "minimum": 1, "description": "The line, from 1."}}}`
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "question.schema.json"), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	c := r.client(t, "claude")
	args := arguments{"to": "codex", "type": "question", "subject": "x", "body": arguments{"line": 0}}
	answer, isError, _ := c.try(t, "send_message", args)
	if !isError {
		t.Errorf("without the program: %q, want an error", answer)
	}
	wantText(t, "without the program", answer, "the program oacp-contract is neither next to oacp nor on the PATH")
	installContract(t)
	if answer, isError, _ = c.try(t, "send_message", args); !isError {
		t.Errorf("a body that does not fit: %q, want an error", answer)
	}
	wantText(t, "a body that does not fit", answer, "body.line: must be >= 1 but found 0 (schemas/question.schema.json:1)", "The line, from 1.")
	args["body"] = "Which line?"
	answer, _, _ = c.try(t, "send_message", args)
	wantText(t, "free text", answer, "free text where fields are required")

	args["body"] = arguments{"line": 7}
	var sent struct {
		ID string `json:"message_id"`
	}
	c.call(t, "send_message", args, &sent)
	other := r.client(t, "codex")
	if answer, isError, _ = other.try(t, "reply_message", arguments{"message_id": sent.ID, "type": "question", "body": "line: x"}); !isError {
		t.Errorf("an answer that does not fit: %q, want an error", answer)
	}
	wantText(t, "an answer that does not fit", answer, `body.line: want integer, not "x"`, "line 1 of the body")
	var answered struct {
		ID string `json:"message_id"`
	}
	other.call(t, "reply_message", arguments{"message_id": sent.ID, "body": "No schema for this type."}, &answered)
	if entries, err := r.workspace.Inbox(t.Context(), "codex"); err != nil || len(entries) != 1 {
		t.Errorf("the inbox holds %d messages (%v), want the one that fits", len(entries), err)
	}
}

// TestSendToAll checks that all means every other agent, and what a message to all cannot be.
func TestSendToAll(t *testing.T) {
	c := newRoom(t, "claude", "codex", "gemini").client(t, "claude")
	var sent struct {
		To []string `json:"to"`
	}
	c.call(t, "send_message", arguments{"to": "all", "type": "question", "subject": "x", "body": "x"}, &sent)
	if want := []string{"codex", "gemini"}; !slices.Equal(sent.To, want) {
		t.Errorf("sent to %v, want %v", sent.To, want)
	}
	for name, args := range map[string]arguments{
		"to: a handoff has one recipient, not all agents": {"to": "all", "type": "handoff", "subject": "x", "body": "x"},
		"subject: contains a line break":                  {"to": "all", "type": "question", "subject": "one\ntwo", "body": "x"},
	} {
		answer, isError, _ := c.try(t, "send_message", args)
		if !isError {
			t.Errorf("%v: %q, want an error", args, answer)
		}
		wantText(t, name, answer, name)
	}
}
