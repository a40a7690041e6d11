package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// A Setup is an agent that signs, and is trusted by other agents.
type Setup struct {
	Agent schema.AgentName `json:"agent"`
	KeyID signing.KeyID    `json:"kid"`
	// Made reports whether the key is new.
	Made bool `json:"made,omitempty"`
	Mode Mode `json:"verify_mode"`
	// Proof is a message of the agent that all others have verified and acknowledged.
	Proof schema.ID `json:"proof"`
}

// SetUp makes agents on this machine sign what they send and trust each other's keys. It makes the keys that are missing.
// With enforce, the agents read only verified messages. At last each agent sends a message that proves this.
func SetUp(ctx context.Context, w *mailbox.Workspace, agents []schema.AgentName, enforce bool, now time.Time) ([]Setup, error) {
	home, err := w.Home()
	if err != nil {
		return nil, err
	}
	store := signing.NewStore(home)
	all := make([]Setup, len(agents))
	var stubs []signing.PublicStub
	for i, agent := range agents {
		if err := w.CheckAgent(agent); err != nil {
			return nil, err
		}
		all[i].Agent = agent
		keys, err := store.Load(agent, "")
		if _, none := errors.AsType[*signing.NoKeyError](err); none {
			var key *signing.Key
			key, err = store.Generate(agent, now)
			keys, all[i].Made = []*signing.Key{key}, true
		}
		if err != nil {
			return nil, err
		}
		all[i].KeyID = keys[0].ID
		own, err := store.Stubs(agent)
		if err != nil {
			return nil, err
		}
		stubs = append(stubs, own...)
	}
	for _, receiver := range agents {
		for _, stub := range stubs {
			if stub.Agent == receiver {
				continue
			}
			if _, err := Import(ctx, w, stub, receiver); err != nil {
				return nil, err
			}
		}
	}
	for i, agent := range agents {
		err := locked(ctx, w, func() error { return writeSettings(w, agent, enforce) })
		if err == nil {
			all[i].Mode, err = ModeOf(w, agent)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range all {
		if err := all[i].prove(ctx, w, agents); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// writeSettings makes an agent sign what it sends and, with enforce, read only verified messages.
func writeSettings(w *mailbox.Workspace, agent schema.AgentName, enforce bool) error {
	full, data, err := readPolicy(w, agent, signing.ReceiverConfig)
	if err != nil {
		return err
	}
	content, _, _ := signing.Split(data) // readPolicy has checked it
	var file yaml.Node
	if err := yaml.Unmarshal(content, &file); err != nil {
		return &FileError{fmt.Errorf("%s: %w", full, err)}
	}
	if file.Kind == 0 {
		file = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	if file.Content[0].Kind != yaml.MappingNode {
		return &FileError{fmt.Errorf("%s is not a mapping of settings", full)}
	}
	section := valueOf(file.Content[0], "signing")
	if section.Kind != yaml.MappingNode {
		*section = yaml.Node{Kind: yaml.MappingNode}
	}
	*valueOf(section, "sign_messages") = yaml.Node{Kind: yaml.ScalarNode, Value: "true"}
	if enforce {
		*valueOf(section, "verify_mode") = yaml.Node{Kind: yaml.ScalarNode, Value: string(Enforce)}
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&file), encoder.Close()); err != nil {
		return err
	}
	signed, err := signAnew(w, agent, signing.ReceiverConfig, out.Bytes())
	if err != nil {
		return err
	}
	return durable.ReplaceFile(w.Root(), w.Dir(), configName(agent), signed, 0o644)
}

// valueOf returns the value of a key in a mapping, and adds the key if it is missing.
func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	value := new(yaml.Node)
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	return value
}

// prove sends a message of the agent to the others, verifies their copies, and acknowledges them.
func (s *Setup) prove(ctx context.Context, w *mailbox.Workspace, agents []schema.AgentName) error {
	draft := schema.Message{
		From: s.Agent, Type: schema.Notification, Subject: "The signature of " + string(s.Agent) + " is verified",
		Body: schema.TextValue("oacp trust setup sent this message, and acknowledged it after each recipient had verified it."),
	}
	draft.To = slices.DeleteFunc(slices.Clone(agents), func(a schema.AgentName) bool { return a == s.Agent })
	receipt, err := w.Send(ctx, draft, &mailbox.SendOptions{Sign: true})
	if err != nil {
		return err
	}
	s.Proof = receipt.Message.ID
	found, err := w.Find(ctx, string(s.Proof))
	if err != nil {
		return err
	}
	checker := NewChecker(w)
	for _, e := range found {
		if e.Box != mailbox.Inbox {
			continue
		}
		if f := checker.Check(e); f.Status != signing.Verified {
			return fmt.Errorf("%s cannot verify %s of %s: %s", e.Agent, s.Proof, s.Agent, strings.TrimSpace(f.Reason))
		}
		if err := w.Acknowledge(e); err != nil && !mailbox.IsGone(err) {
			return err
		}
	}
	return nil
}
