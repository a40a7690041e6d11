package signing

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"

	"github.com/oacp-go/oacp/schema"
)

// A Pin is a key that a receiver trusts to sign for an agent, or no longer trusts.
type Pin struct {
	Agent   schema.AgentName
	Key     ed25519.PublicKey
	Revoked bool
}

// Pins are the pins of a receiver.
type Pins map[KeyID]Pin

// Status is the outcome of a verification, in the words of the reference implementation.
type Status string

// The outcomes of a verification.
const (
	// Unsigned: the file has no trailer.
	Unsigned Status = "unsigned"
	// Verified: a pinned key signed these bytes for the agent that the message names as its sender.
	Verified Status = "verified"
	// Untrusted: no signature is from a pinned key.
	Untrusted Status = "untrusted"
	// Invalid: the bytes, the signature or the sender were changed.
	Invalid Status = "invalid"
	// Revoked: the signature is from a key that the receiver no longer trusts.
	Revoked Status = "revoked"
)

// A Verdict summarizes a status for people.
type Verdict string

// The verdicts.
const (
	// VerdictVerified is that of Verified.
	VerdictVerified Verdict = "verified"
	// VerdictUnverified is that of Unsigned and Untrusted: nothing proves who wrote the message.
	VerdictUnverified Verdict = "unverified"
	// VerdictBad is that of Invalid and Revoked: the message may be forged.
	VerdictBad Verdict = "bad"
)

// Verdict returns the verdict on the status.
func (s Status) Verdict() Verdict {
	switch s {
	case Verified:
		return VerdictVerified
	case Invalid, Revoked:
		return VerdictBad
	}
	return VerdictUnverified
}

// Outcomes of single signatures.
const (
	outcomeVerified  = "verified"
	outcomeUnknown   = "unknown_kid"
	outcomeRevoked   = "revoked"
	outcomeAgent     = "pin_agent_mismatch"
	outcomeSignature = "bad_signature"
	outcomeSender    = "identity_mismatch"
)

// Checked is the outcome of verifying one signature.
type Checked struct {
	KeyID KeyID  `json:"kid" yaml:"kid"`
	Agent string `json:"agent" yaml:"agent"`
	// Outcome is verified, unknown_kid, revoked, pin_agent_mismatch, bad_signature, or
	// identity_mismatch for a good signature of another agent than the sender.
	Outcome string `json:"outcome" yaml:"outcome"`
}

// Result is the outcome of verifying a file.
type Result struct {
	Status Status
	// Reason says why the status is not Verified. It is empty for an unsigned file.
	Reason string
	// HasTrailer reports whether the file has a trailer of the right form.
	HasTrailer bool
	// Sender is the sender that the message names, if a signature was good.
	Sender schema.AgentName
	// Signature is the good signature of the sender; nil unless the status is Verified.
	Signature *Signature
	// Digest is the hexadecimal SHA-256 of the signed bytes; without a trailer, of the file.
	Digest string
	// Checked are all signatures, in the order of the file.
	Checked []Checked
}

// Verify checks the signatures of a file against the pins of its receiver. The sender function
// returns the sender that the signed bytes name; Verify calls it only for bytes that a pinned key
// signed.
//
// One good signature of the sender is enough. A revoked key never counts, even if it signed the file
// before it was revoked.
func Verify(file []byte, pins Pins, sender func(signed []byte) schema.AgentName) Result {
	if len(file) > schema.MaxFileSize {
		return Result{Status: Invalid, Reason: "the file exceeds the size of a message file"}
	}
	signed, auth, err := Split(file)
	sum := sha256.Sum256(signed)
	r := Result{Status: Unsigned, HasTrailer: auth != "", Digest: hex.EncodeToString(sum[:])}
	if err == nil && auth == "" {
		return r
	}
	var signatures []Signature
	if err == nil {
		signatures, err = Parse(auth)
	}
	if err != nil {
		r.Status, r.Reason = Invalid, err.Error()
		return r
	}
	good, bad, revoked := 0, false, false
	for _, s := range signatures {
		outcome := s.check(signed, pins)
		r.Checked = append(r.Checked, Checked{s.KeyID, s.Agent, outcome})
		switch outcome {
		case outcomeVerified:
			good++
		case outcomeRevoked:
			revoked = true
		case outcomeAgent, outcomeSignature:
			bad = true
		}
	}
	switch {
	case good > 0:
		r.compareSender(signatures, sender(signed))
	case bad:
		r.Status, r.Reason = Invalid, "the message or its signature was changed after it was signed"
	case revoked:
		r.Status, r.Reason = Revoked, "the key that signed it is revoked"
	default:
		r.Status, r.Reason = Untrusted, "it is not signed by a pinned key"
	}
	return r
}

func (s *Signature) check(signed []byte, pins Pins) (outcome string) {
	switch pin, ok := pins[s.KeyID]; {
	case !ok:
		return outcomeUnknown
	case pin.Revoked:
		return outcomeRevoked
	case pin.Agent != s.AgentName():
		return outcomeAgent
	case !s.verify(signed, pin.Key):
		return outcomeSignature
	}
	return outcomeVerified
}

// compareSender looks for a good signature of the sender. Signatures of others do not count.
func (r *Result) compareSender(signatures []Signature, sender schema.AgentName) {
	r.Sender = sender
	other := ""
	for i := range signatures {
		s := &signatures[i]
		switch name := s.AgentName(); {
		case r.Checked[i].Outcome != outcomeVerified:
		case name != sender:
			r.Checked[i].Outcome = outcomeSender
			other = string(name)
		case r.Signature == nil:
			r.Signature = s
		}
	}
	switch {
	case r.Signature != nil:
		r.Status = Verified
	case sender == "":
		r.Status, r.Reason = Invalid, "it is signed, but names no sender"
	default:
		r.Status, r.Reason = Invalid, "it is signed by "+other+", but claims to be from "+string(sender)
	}
}
