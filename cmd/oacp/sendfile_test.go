package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

// TestDryRunCanBeSent checks that --file sends exactly what --dry-run prints, whatever the message.
func TestDryRunCanBeSent(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "word", " ", "  ", "\n", "\n\n", "\t", "\r\n", ": ", "- ", "#", "\"", "\\", "|", "é", "\u2028", "\x00", "%", "null", "'", "~"}
	text := func(longest int) string {
		var out strings.Builder
		for range 1 + random.IntN(longest) {
			out.WriteString(words[random.IntN(len(words))])
		}
		return out.String()
	}
	c := newSession(t, "a,b,c")
	file := filepath.Join(t.TempDir(), "message.yaml")
	sent := 0
	for range 300 {
		args := []string{
			"send", "--from", "a", "--to", []string{"b", "c", "b,c", "all"}[random.IntN(4)],
			"--type", string(schema.Types()[random.IntN(12)]), "--subject=" + text(5), "--body=" + text(30), "--context-keys=" + text(6),
		}
		if random.IntN(3) == 0 {
			args = append(args, "--expires", "2h", "--channel=x", "--related-pr=7", "--priority", "p0", "--conversation-id", "conv-20260313-claude-7")
		}
		if random.IntN(3) == 0 {
			args = append(args, "--model=m", "--turns=3", "--wall-time=90", "--cost=.5")
		}
		if c.run(t.Context(), append(args, "--dry-run", "--json")...) != 0 {
			continue // it is not valid
		}
		var dry struct {
			ID   string
			YAML string
		}
		if err := json.Unmarshal(c.stdout.Bytes(), &dry); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(dry.YAML), 0o644); err != nil {
			t.Fatal(err)
		}
		var receipt struct {
			ID     string
			Outbox string `json:"outbox_path"`
		}
		if err := json.Unmarshal([]byte(c.must(t, "send", "--file", file, "--json")), &receipt); err != nil {
			t.Fatal(err)
		}
		sent++
		if got, err := os.ReadFile(receipt.Outbox); err != nil || string(got) != dry.YAML || receipt.ID != dry.ID {
			t.Fatalf("message %s is\n%s (%v)\nwant %s:\n%s", receipt.ID, got, err, dry.ID, dry.YAML)
		}
	}
	if sent < 50 {
		t.Errorf("only %d of 300 messages were valid, want more", sent)
	}
}
