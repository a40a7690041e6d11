package main

import (
	"bytes"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

// agentInboxJSON is an inbox in the JSON of the reference implementation, with more keys.
type agentInboxJSON struct {
	Agent schema.AgentName `json:"agent"`
	Inbox string           `json:"inbox_path"`
	Count int              `json:"message_count"`
	// VerifyMode is empty for trust.Off. PolicyError says why the agent's settings count for nothing.
	VerifyMode  trust.Mode `json:"verify_mode,omitempty"`
	PolicyError string     `json:"policy_error,omitempty"`
	// Messages is empty here: printJSON writes the messages by itself.
	Messages []struct{} `json:"messages"`
	// LoadError says why the inbox cannot be listed.
	LoadError string `json:"load_error,omitempty"`
}

// printJSON prints the answer as WriteJSON would. An inbox can have many messages, so it encodes
// them in parallel, and puts them where the rest of the answer has an empty list.
func (o inboxOptions) printJSON(w *mailbox.Workspace, inboxes []listing, s *command.Streams) error {
	answer := struct {
		Project   string           `json:"project"`
		Workspace string           `json:"workspace"`
		Mode      string           `json:"mode"`
		Agents    []agentInboxJSON `json:"agents"`
	}{project.Name(w), w.Dir(), "agent", []agentInboxJSON{}}
	if o.all {
		answer.Mode = "all"
	}
	for _, inbox := range inboxes {
		one := agentInboxJSON{Agent: inbox.agent, Inbox: w.BoxPath(inbox.agent, mailbox.Inbox), Count: len(inbox.entries), Messages: []struct{}{}}
		if mode, err := trust.ModeOf(w, inbox.agent); mode != trust.Off {
			one.VerifyMode = mode
			if err != nil {
				one.PolicyError = failure.OneLine(err.Error())
			}
		}
		if inbox.err != nil {
			one.LoadError = failure.OneLine(inbox.err.Error())
		}
		answer.Agents = append(answer.Agents, one)
	}
	var frame bytes.Buffer
	if err := command.WriteJSON(&frame, answer); err != nil {
		return err
	}
	rest := frame.Bytes()
	now := s.Now()
	for _, inbox := range inboxes {
		before, after, _ := bytes.Cut(rest, []byte(`"messages": []`))
		rest = after
		fmt.Fprintf(s.Out, "%s\"messages\": [", before) // Flush returns the first error of all writes
		for _, part := range encodePending(inbox, now) {
			s.Out.Write(part)
		}
		s.Out.WriteByte(']')
	}
	_, err := s.Out.Write(rest)
	return err
}

// encodePending returns the elements of the list of messages, in several parts.
func encodePending(inbox listing, now time.Time) [][]byte {
	entries := inbox.entries
	const chunk, bytesPerEntry = 256, 512
	parts := make([][]byte, (len(entries)+chunk-1)/chunk)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n := range parts {
		group.Go(func() error {
			out := make([]byte, 0, chunk*bytesPerEntry)
			for i := n * chunk; i < min((n+1)*chunk, len(entries)); i++ {
				if i > 0 {
					out = append(out, ',')
				}
				out = appendPending(out, &inbox, i, now)
			}
			parts[n] = out
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
	if len(parts) > 0 {
		parts = append(parts, []byte("\n      "))
	}
	return parts
}

// appendPending appends entry i as an element of the list of messages.
func appendPending(out []byte, inbox *listing, i int, now time.Time) []byte {
	e, signature := &inbox.entries[i], inbox.signatures[i]
	m, expired, invalid, loadError, held := e.Message, "false", "", "", ""
	var reply schema.ID
	answered := ""
	if e.Err != nil {
		if m = command.Preview(e); e.IsHeld() {
			held = e.Err.Error()
		} else if e.Message == nil {
			loadError = e.Err.Error()
		} else {
			invalid = e.Err.Error()
		}
	}
	if m.ExpiredAt(now) {
		expired = "true"
	}
	if r := inbox.replies[m.ID]; r.Message != nil {
		reply = r.Message.ID
		if r.Answers {
			answered = "true"
		}
	}
	out = append(out, "\n        {"...)
	for i, field := range [...]struct {
		key, value string
		optional   bool
	}{
		{key: "id", value: string(m.ID)},
		{key: "from", value: string(m.From)},
		{key: "type", value: string(m.Type)},
		{key: "priority", value: string(m.Priority)},
		{key: "subject", value: m.Subject},
		{key: "created_at_utc", value: string(m.CreatedAt)},
		{key: "age", value: spelling.Age(m.CreatedAt.Time(), now)},
		{key: "file", value: e.Name},
		{key: "path", value: e.Path},
		{"conversation_id", string(m.ConversationID), true},
		{"expires_at", string(m.ExpiresAt), true},
		{key: "expired", value: expired},
		{"reply", string(reply), true},
		{"answered", answered, true},
		{"signature", string(signature.Verdict), true},
		{"signature_reason", signature.Reason, true},
		{"auth", string(signature.Status), true},
		{"held", held, true},
		{"error", invalid, true},
		{"load_error", loadError, true},
	} {
		if field.optional && field.value == "" {
			continue
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, "\n          \""...), field.key...), `": `...)
		if field.key == "expired" || field.key == "answered" {
			out = append(out, field.value...)
		} else {
			out = appendString(out, field.value)
		}
	}
	return append(out, "\n        }"...)
}

// appendString appends a text in quotes.
func appendString(out []byte, value string) []byte {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			var quoted bytes.Buffer
			_ = command.WriteJSONLine(&quoted, value) // a string can always be encoded
			return append(out, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
		}
	}
	return append(append(append(out, '"'), value...), '"')
}
