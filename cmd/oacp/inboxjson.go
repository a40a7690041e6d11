package main

import (
	"bytes"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// inboxAnswer is the JSON of the reference implementation's inbox, with more keys.
type inboxAnswer struct {
	Project   string           `json:"project"`
	Workspace string           `json:"workspace"`
	Mode      string           `json:"mode"`
	Agents    []agentInboxJSON `json:"agents"`
}

type agentInboxJSON struct {
	Agent schema.AgentName `json:"agent"`
	Inbox string           `json:"inbox_path"`
	Count int              `json:"message_count"`
	// Messages is empty here: printJSON writes the messages by itself.
	Messages []struct{} `json:"messages"`
	// LoadError says why the inbox cannot be listed.
	LoadError string `json:"load_error,omitempty"`
}

// printJSON prints the answer as WriteJSON would. An inbox can have many messages, so it encodes
// them in parallel, and puts them where the rest of the answer has an empty list.
func (o inboxOptions) printJSON(w *mailbox.Workspace, inboxes []listing, s *command.Streams) error {
	answer := inboxAnswer{Project: project.Name(w), Workspace: w.Dir(), Mode: "agent", Agents: []agentInboxJSON{}}
	if o.all {
		answer.Mode = "all"
	}
	for _, inbox := range inboxes {
		one := agentInboxJSON{
			Agent: inbox.agent, Inbox: w.BoxPath(inbox.agent, mailbox.Inbox),
			Count: len(inbox.entries), Messages: []struct{}{},
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
		parts := [][]byte{before, []byte(`"messages": [`)}
		parts = append(parts, encodePending(inbox.entries, now)...)
		for _, part := range append(parts, []byte("]")) {
			if _, err := s.Out.Write(part); err != nil {
				return err
			}
		}
	}
	_, err := s.Out.Write(rest)
	return err
}

// encodePending returns the elements of the list of messages, in several parts.
func encodePending(entries []mailbox.Entry, now time.Time) [][]byte {
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
				out = appendPending(out, &entries[i], now)
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

// appendPending appends an entry as an element of the list of messages.
func appendPending(out []byte, e *mailbox.Entry, now time.Time) []byte {
	out = append(out, "\n        {"...)
	m, expired := e.Message, false
	if m == nil {
		m = &schema.Message{From: "?", Type: "?", Priority: "?", CreatedAt: schema.NewTimestamp(e.Modified)}
	} else {
		expired = m.ExpiredAt(now)
	}
	out = appendField(out, "id", string(m.ID))
	out = appendField(append(out, ','), "from", string(m.From))
	out = appendField(append(out, ','), "type", string(m.Type))
	out = appendField(append(out, ','), "priority", string(m.Priority))
	out = appendField(append(out, ','), "subject", m.Subject)
	out = appendField(append(out, ','), "created_at_utc", string(m.CreatedAt))
	out = appendField(append(out, ','), "age", command.Age(m.CreatedAt.Time(), now))
	out = appendField(append(out, ','), "file", e.Name)
	out = appendField(append(out, ','), "path", e.Path)
	if m.ConversationID != "" {
		out = appendField(append(out, ','), "conversation_id", string(m.ConversationID))
	}
	if m.ExpiresAt != "" {
		out = appendField(append(out, ','), "expires_at", string(m.ExpiresAt))
	}
	out = append(out, ",\n          \"expired\": "...)
	out = strconv.AppendBool(out, expired)
	if e.Err != nil {
		out = appendField(append(out, ','), "load_error", e.Err.Error())
	}
	return append(out, "\n        }"...)
}

// appendField appends a key and its value on a line of their own.
func appendField(out []byte, key, value string) []byte {
	out = append(out, "\n          \""...)
	out = append(out, key...)
	out = append(out, `": `...)
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			var quoted bytes.Buffer
			_ = command.WriteJSONLine(&quoted, value) // a string can always be encoded
			return append(out, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
		}
	}
	return append(append(append(out, '"'), value...), '"')
}
