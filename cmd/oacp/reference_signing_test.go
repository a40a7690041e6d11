package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// fixedKey returns a key that is the same in every run. Everybody knows it; never trust it.
func fixedKey(agent schema.AgentName) *signing.Key {
	k, err := signing.NewKey(bytes.Repeat([]byte(agent[:1]), 32), agent, "0a4e7a62-6f4b-4c1e-9d7c-5d1c0a9b8e01", "7b1d2c3e-0000-4000-8000-000000000001")
	if err != nil {
		panic(err)
	}
	return k
}

// stubFile returns the file of a public key.
func stubFile(name string, k *signing.Key) map[string]string {
	data, err := json.MarshalIndent(signing.PublicStub{
		KeyID: k.ID, JWK: k.JWK(), Agent: k.Agent, AgentURN: k.AgentURN(), Instance: k.InstanceURN(), CreatedAt: "2026-03-13T14:00:00Z",
	}, "", "  ")
	if err != nil {
		panic(err)
	}
	return map[string]string{name: string(data) + "\n"}
}

// signedBy signs the only file.
func signedBy(k *signing.Key, files map[string]string) map[string]string {
	for name, text := range files {
		signed, err := signing.Sign([]byte(text), k)
		if err != nil {
			panic(err)
		}
		return map[string]string{name: string(signed)}
	}
	return nil
}

// changed replaces a word in the only file.
func changed(old, new string, files map[string]string) map[string]string {
	for name, text := range files {
		return map[string]string{name: strings.Replace(text, old, new, 1)}
	}
	return nil
}

const importLine = "trust import HOME/claude.pub.json --project demo --agent codex"

// signingCases are the cases about signatures. Private keys are made at random, so that no case signs.
func signingCases() []referenceCase {
	claude, other := fixedKey("claude"), fixedKey("codex")
	key, otherKey := string(claude.ID), string(other.ID)
	stub := stubFile("claude.pub.json", claude)
	config := func(text string) map[string]string {
		return map[string]string{"projects/demo/agents/claude/config.yaml": text}
	}
	verify := []referenceStep{
		{line: importLine}, {line: "verify HOME/message.yaml --project demo --receiver codex --json"},
		{line: "verify HOME/message.yaml --pins HOME/projects/demo/agents/codex/trust/allowed_signers.yaml --json"},
		{line: "verify HOME/message.yaml --project demo --receiver claude --json"}, {line: "verify HOME/message.yaml --json"},
		{line: "verify HOME/message.yaml"},
	}
	message := file("message.yaml")
	return []referenceCase{
		{name: "trust a key", files: demoProject(stub), steps: []referenceStep{
			{line: "trust import HOME/claude.pub.json --project demo --catalog-only --json"},
			{line: importLine + " --json"}, {line: importLine + " --json"}, {line: "trust list --project demo --json"},
			{line: "trust list --project demo --agent claude --json"}, {line: "trust revoke " + key + " --project demo --agent codex --json"},
			{line: "trust revoke " + key + " --project demo --all-receivers --json"}, {line: importLine}, {line: "trust list --project demo --json"},
		}},
		{name: "trust refused", files: demoProject(stub, map[string]string{"bad.pub.json": "{}\n", "list.pub.json": "[]\n"}, changed(`"kty"`, `"d": "AAAA", "kty"`, stubFile("private.pub.json", claude))), steps: []referenceStep{
			{line: "trust import HOME/claude.pub.json --project demo"},
			{line: "trust import HOME/claude.pub.json --project demo --agent nobody"}, {line: "trust import HOME/claude.pub.json --project demo --agent ../codex"},
			{line: "trust import HOME/none.pub.json --project demo --agent codex"}, {line: "trust import HOME/bad.pub.json --project demo --agent codex"},
			{line: "trust import HOME/list.pub.json --project demo --agent codex"}, {line: "trust import HOME/private.pub.json --project demo --agent codex"},
			{line: "trust revoke " + otherKey + " --project demo --agent codex"}, {line: "trust revoke " + otherKey + " --project demo --all-receivers"},
			{line: "trust revoke " + otherKey + " --project demo"}, {line: "trust revoke x --project demo --agent codex"}, {line: "trust"},
		}},
		{name: "trust in an unknown project", files: demoProject(stub), steps: []referenceStep{
			{line: "trust import HOME/claude.pub.json --project none --agent codex"}, {line: "trust list --project none"},
		}, differs: "an unknown project is a failure of every command, not a wrong command line", exits: []int{1, 1}},
		{name: "trust in a file that is wrong", files: demoProject(stub, map[string]string{"projects/demo/agents/codex/trust/allowed_signers.yaml": "version: 1\nsigners: [{agent: claude}]\n"}, signedBy(claude, message)), steps: []referenceStep{
			{line: "trust list --project demo"}, {line: importLine}, {line: "verify HOME/message.yaml --project demo --receiver codex --json"},
		}},
		{name: "verify a signed message", files: demoProject(stub, signedBy(claude, message)), steps: verify},
		{name: "verify an unsigned message", files: demoProject(stub, message), steps: verify},
		{name: "verify a message that was changed", files: demoProject(stub, changed("usual", "other", signedBy(claude, message))), steps: verify},
		{name: "verify a message that another agent signed", files: demoProject(stub, signedBy(claude, file("message.yaml", "from: gemini"))), steps: verify},
		{name: "verify a message with a broken trailer", files: demoProject(stub, changed("\"\n", "\" \n", signedBy(claude, file("message.yaml", "created_at_utc: 2026-03-13T14:30:07Z")))), steps: verify},
		{name: "verify a message with a revoked key", files: demoProject(stub, signedBy(claude, message)), steps: append([]referenceStep{
			{line: importLine}, {line: "trust revoke " + key + " --project demo --agent codex"},
		}, verify[1:]...)},
		{name: "verify a message in a mailbox", files: demoProject(stub, signedBy(claude, mail("codex", mailName))), steps: []referenceStep{
			{line: importLine}, {line: "verify HOME/projects/demo/agents/codex/inbox/" + mailName + " --json"}},
			differs: "the pins of the agent whose mailbox holds the file count", exits: []int{0, 0}},
		{name: "verify for an unknown agent", files: demoProject(signedBy(claude, message)), steps: one("verify HOME/message.yaml --project demo --receiver codx"),
			differs: "an unknown name is a mistake", exits: []int{1}},
		{name: "verify nothing", files: demoProject(), steps: []referenceStep{{line: "verify"}, {line: "verify HOME/none.yaml"}, {line: "verify HOME/projects"}}},
		{name: "list no keys", files: demoProject(), steps: []referenceStep{
			{line: "key list --json"}, {line: "key list --agent claude"}, {line: "key"}, {line: "key gen"}, {line: "key gen --agent ../x"},
		}},
		{name: "send without a key", files: demoProject(config("signing: {sign_messages: true}\n")), steps: []referenceStep{
			{line: sendLine + "--body x --json"}, {line: sendLine + "--body x --dry-run"},
			{line: "send demo --from codex --to claude --type question --subject S --body x --sign --json"},
			{line: "send demo --from codex --to claude --type question --subject S --body x --json"},
		}},
		{name: "send with a setting that is wrong", files: demoProject(config("signing: {sign_messages: \"true\"}\n")), steps: one(sendLine + "--body x --json")},
		{name: "send with settings that are wrong", files: demoProject(config("signing: [sign_messages]\n")), steps: one(sendLine + "--body x --json")},
		{name: "send with settings that say no", files: demoProject(config("signing: {sign_messages: no}\n")), steps: one(sendLine + "--body x --json")},
	}
}
