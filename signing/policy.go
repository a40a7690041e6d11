package signing

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/schema"
)

// A Policy identifies a file with an agent's settings for verifying messages. Its signature is good only
// for this project or workspace, agent and kind of file.
type Policy struct {
	Kind PolicyKind
	// Project is the name by which the reference implementation knows the workspace.
	Project string
	// Workspace is the workspace's own id, empty if it has none.
	Workspace string
	Receiver  schema.AgentName
}

// A PolicyKind is a kind of policy file.
type PolicyKind string

// The kinds of policy files.
const (
	// ReceiverConfig is an agent's config.yaml.
	ReceiverConfig PolicyKind = "receiver_config"
	// AllowedSigners is the file with an agent's pins.
	AllowedSigners PolicyKind = "allowed_signers"
)

var policies = profile{"oacp-policy+yaml", "urn:oacp:policy:v1", []string{"agent", "domain", "instance", "policy", "scheme"}}

// Key returns the name of the policy in the list of signed policies.
func (p Policy) Key() string { return p.Project + "/" + string(p.Receiver) + "/" + string(p.Kind) }

// projects are the values of the claim project that fit.
func (p Policy) projects() []string {
	if p.Workspace == "" {
		return []string{p.Project}
	}
	return []string{p.Project, "urn:oacp:workspace:" + p.Workspace}
}

// SignPolicy returns the file with a signature of each key, at most 4, for the project and for the workspace. It
// replaces the signatures that the file has.
func SignPolicy(file []byte, p Policy, keys ...*Key) ([]byte, error) {
	content, _, err := Split(file)
	if err != nil {
		return nil, err
	}
	if len(content) == 0 || content[len(content)-1] != '\n' {
		content = append(content[:len(content):len(content)], '\n')
	}
	var entries []entry
	for _, k := range keys[:min(len(keys), maxSignatures/2)] {
		for _, project := range p.projects() {
			claim, err := json.Marshal(map[string]string{"kind": string(p.Kind), "project": project, "receiver": string(p.Receiver)})
			if err != nil {
				return nil, err
			}
			entries = append(entries, k.sign(policies.header(k, string(claim)), content))
		}
	}
	return policies.seal(content, entries)
}

// VerifyPolicy returns an error unless the file has a good signature for the policy. Only the keys of the
// receiver among keys count. The error is ErrNotSigned if there is no trailer.
func VerifyPolicy(file []byte, p Policy, keys []PublicStub) error {
	signed, auth, err := Split(file)
	if err != nil {
		return err
	}
	if auth == "" {
		return ErrNotSigned
	}
	signatures, err := policies.parse(auth)
	if err != nil {
		return err
	}
	var reasons []error
	for _, s := range signatures {
		err := s.verifyPolicy(signed, p, keys)
		if err == nil {
			return nil
		}
		reasons = append(reasons, fmt.Errorf("key %.12s…: %w", s.KeyID, err))
	}
	return errors.Join(reasons...)
}

// ErrNotSigned reports that a file has no signature.
var ErrNotSigned = errors.New("it is not signed")

func (s *Signature) verifyPolicy(signed []byte, p Policy, keys []PublicStub) error {
	claim, err := object(s.policy, "the header's policy", "kind", "project", "receiver")
	if err != nil {
		return err
	}
	for name, want := range map[string][]string{"kind": {string(p.Kind)}, "project": p.projects(), "receiver": {string(p.Receiver)}} {
		if got, err := text(claim, name); err != nil || !slices.Contains(want, got) {
			return fmt.Errorf("the signature is for another file: its %s is not %s", name, want[0])
		}
	}
	i := slices.IndexFunc(keys, func(k PublicStub) bool { return k.KeyID == s.KeyID && k.Agent == p.Receiver })
	if i < 0 || s.AgentName() != p.Receiver {
		return fmt.Errorf("%s has no such key on this machine", p.Receiver)
	}
	key, err := keys[i].JWK.PublicKey()
	if err == nil && !s.verify(signed, key) {
		err = errors.New("the file was changed after it was signed")
	}
	return err
}
