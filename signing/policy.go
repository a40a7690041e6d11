package signing

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oacp-go/oacp/schema"
)

// A Policy identifies a file with an agent's settings for verifying messages. Its signature is good only
// for this project, agent and kind of file.
type Policy struct {
	Kind     PolicyKind
	Project  string
	Receiver schema.AgentName
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
	for name, want := range map[string]string{"kind": string(p.Kind), "project": p.Project, "receiver": string(p.Receiver)} {
		if got, err := text(claim, name); err != nil || got != want {
			return fmt.Errorf("the signature is for another file: its %s is not %s", name, want)
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
