// Package signing signs message files and verifies their signatures, in the format of the reference
// implementation.
//
// A signed file is the bytes of a message followed by one line, the trailer, and one line feed:
//
//	auth: "<base64url>"
//
// The value is a JSON Web Signature (RFC 7515) in general JSON form with detached content: the
// signed content is all the bytes before the trailer. It holds 1 to 8 Ed25519 signatures, each with
// a protected header that names the key by its thumbprint (RFC 7638), the agent, and the machine.
// Every part has one canonical form, so a signed message has one sequence of bytes.
//
// The package does not know workspaces. Package mailbox/trust decides which keys an agent trusts.
package signing

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/schema"
)

const (
	// maxSignatures is how many signatures a message may carry.
	maxSignatures = 8
	// maxAuth is the longest value of a trailer, in characters.
	maxAuth = 16_384
	// maxProtected is the longest protected header, in characters.
	maxProtected = 4096
)

// The constant parts of a protected header.
const (
	Algorithm   = "EdDSA"
	Scheme      = "raw-prefix-v1"
	agentURN    = "urn:oacp:agent:"
	instanceURN = "urn:uuid:"
)

// A profile is what protected headers say about the kind of the signed file, so that a signature of one
// kind of file is not valid for another.
type profile struct {
	typ, domain string
	// members are those of the header's oacp, sorted.
	members []string
}

var messages = profile{"oacp-message+yaml", "urn:oacp:message:v1", []string{"agent", "domain", "instance", "scheme"}}

// Split separates a file into the signed bytes and the value of its trailer. Without a trailer, it
// returns all bytes and an empty value. Only the last line can be a trailer: any other line that looks
// like one is content.
//
// Split returns an error if the last line begins like a trailer but is not exactly one: the file was
// changed after it was signed.
func Split(file []byte) (signed []byte, auth string, err error) {
	text, isLine := bytes.CutSuffix(file, []byte("\n"))
	start := bytes.LastIndexByte(text, '\n') + 1
	value, hasName := bytes.CutPrefix(text[start:], []byte(`auth: "`))
	value, closed := bytes.CutSuffix(value, []byte(`"`))
	if isLine && hasName && closed && isBase64URL(string(value)) && len(value) <= maxAuth {
		return file[:start], string(value), nil
	}
	text = bytes.TrimRight(file, " \t\r\n")
	if bytes.HasPrefix(text[bytes.LastIndexByte(text, '\n')+1:], []byte("auth:")) {
		return file, "", fmt.Errorf(`the last line must be exactly auth: "<base64url>" and one line feed, with at most %d characters`, maxAuth)
	}
	return file, "", nil
}

// SameContent reports whether two files are the same, ignoring their signatures. The keys of a sender may
// change between two attempts to send a message.
func SameContent(a, b []byte) bool {
	a, _, _ = Split(a)
	b, _, _ = Split(b)
	return bytes.Equal(a, b)
}

// header returns the protected header of a signature by a key. Claim is what it says about the file, in JSON, or empty.
func (p profile) header(k *Key, claim string) string {
	if claim != "" {
		claim = `"policy":` + claim + `,`
	}
	return `{"alg":"` + Algorithm + `","crit":["oacp"],"kid":"` + string(k.ID) + `","oacp":{"agent":"` + k.AgentURN() +
		`","domain":"` + p.domain + `","instance":"` + k.InstanceURN() + `",` + claim + `"scheme":"` + Scheme + `"},"typ":"` + p.typ + `"}`
}

// sign returns the entry of a signature with this header.
func (k *Key) sign(header string, content []byte) entry {
	protected := base64.RawURLEncoding.EncodeToString([]byte(header))
	signature := ed25519.Sign(k.private, signingInput(protected, content))
	return entry{protected, base64.RawURLEncoding.EncodeToString(signature)}
}

// seal appends the trailer with these signatures to a file.
func (p profile) seal(content []byte, entries []entry) ([]byte, error) {
	auth := base64.RawURLEncoding.EncodeToString([]byte(encodeEntries(entries)))
	_, err := p.parse(auth)
	return append(content[:len(content):len(content)], `auth: "`+auth+"\"\n"...), err
}

// A Signature is one signature of a message, and what its protected header says.
type Signature struct {
	KeyID KeyID
	// Agent and Instance are the URNs of the signing agent and of its machine.
	Agent    string
	Instance string

	// policy identifies the file, in the signature of a policy file.
	policy json.RawMessage
	// protected is the header as written in the file, which the signature covers.
	protected string
	value     []byte
}

// AgentName returns the last part of the agent's URN.
func (s *Signature) AgentName() schema.AgentName {
	return schema.AgentName(s.Agent[strings.LastIndexByte(s.Agent, ':')+1:])
}

// Parse decodes the value of a message's trailer and checks its form. It does not verify the signatures.
func Parse(auth string) ([]Signature, error) { return messages.parse(auth) }

func (p profile) parse(auth string) ([]Signature, error) {
	if len(auth) > maxAuth {
		return nil, fmt.Errorf("the signature has %d characters; the most is %d", len(auth), maxAuth)
	}
	data, err := decodeCanonical(auth, "the signature")
	if err != nil {
		return nil, err
	}
	var container struct{ Signatures []entry }
	_ = json.Unmarshal(data, &container) // after any error, encodeEntries gives another text
	if encodeEntries(container.Signatures) != string(data) {
		return nil, errors.New(`the signature is not {"signatures":[{"protected":…,"signature":…}]}, compact and with each key once`)
	}
	if n := len(container.Signatures); n == 0 || n > maxSignatures {
		return nil, fmt.Errorf("there are %d signatures; want 1 to %d", n, maxSignatures)
	}
	signatures := make([]Signature, len(container.Signatures))
	for i, e := range container.Signatures {
		if signatures[i], err = e.parse(p); err != nil {
			return nil, fmt.Errorf("signatures[%d]: %w", i, err)
		}
	}
	return signatures, nil
}

// entry is a signature as JSON has it.
type entry struct{ Protected, Signature string }

func encodeEntries(entries []entry) string {
	parts := make([]string, len(entries))
	for i, e := range entries {
		parts[i] = `{"protected":"` + e.Protected + `","signature":"` + e.Signature + `"}`
	}
	return `{"signatures":[` + strings.Join(parts, ",") + `]}`
}

func (e entry) parse(p profile) (s Signature, err error) {
	s.protected = e.Protected
	if s.value, err = decodeCanonical(e.Signature, "the signature"); err != nil {
		return s, err
	}
	if len(e.Protected) > maxProtected {
		return s, fmt.Errorf("the header has %d characters; the most is %d", len(e.Protected), maxProtected)
	}
	data, err := base64.RawURLEncoding.DecodeString(e.Protected)
	if err != nil || !isBase64URL(e.Protected) { // the decoder skips line feeds
		return s, errors.New("the header is not base64url")
	}
	header, err := object(data, "the header", "alg", "crit", "kid", "oacp", "typ")
	if err != nil {
		return s, err
	}
	var critical []string
	if json.Unmarshal(header["crit"], &critical) != nil || !slices.Equal(critical, []string{"oacp"}) {
		return s, errors.New(`crit is not ["oacp"]`)
	}
	oacp, err := object(header["oacp"], "the header's oacp", p.members...)
	if err != nil {
		return s, err
	}
	for _, member := range []struct {
		of         map[string]json.RawMessage
		name, want string
	}{
		{header, "alg", Algorithm}, {header, "typ", p.typ}, {oacp, "scheme", Scheme}, {oacp, "domain", p.domain},
	} {
		if got, err := text(member.of, member.name); err != nil || got != member.want {
			return s, fmt.Errorf("%s is not %s", member.name, member.want)
		}
	}
	s.policy = oacp["policy"]
	kid, err := text(header, "kid")
	if err == nil {
		s.KeyID, err = ParseKeyID(kid)
	}
	if err == nil {
		s.Agent, err = text(oacp, "agent")
	}
	if err == nil {
		_, _, err = parseAgentURN(s.Agent)
	}
	if err == nil {
		s.Instance, err = text(oacp, "instance")
	}
	if err == nil {
		_, err = parseInstanceURN(s.Instance)
	}
	return s, err
}

// verify reports whether the key made the signature over the bytes.
func (s *Signature) verify(signed []byte, key ed25519.PublicKey) bool {
	return len(signed) > 0 && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, signingInput(s.protected, signed), s.value)
}

// signingInput returns what is signed according to RFC 7515, section 5.1.
func signingInput(protected string, signed []byte) []byte {
	input := make([]byte, 0, len(protected)+1+base64.RawURLEncoding.EncodedLen(len(signed)))
	input = append(append(input, protected...), '.')
	return base64.RawURLEncoding.AppendEncode(input, signed)
}

// parseAgentURN returns the trust domain and the name in the URN of an agent.
func parseAgentURN(urn string) (domain string, name schema.AgentName, err error) {
	rest, ok := strings.CutPrefix(urn, agentURN)
	if i := strings.LastIndexByte(rest, ':'); ok && i >= 0 && isUUID(rest[:i]) {
		if name, err := schema.ParseAgentName(rest[i+1:]); err == nil {
			return rest[:i], name, nil
		}
	}
	return "", "", fmt.Errorf("%.100q is not %s<uuid>:<agent>", urn, agentURN)
}

// parseInstanceURN returns the UUID in the URN of a machine.
func parseInstanceURN(urn string) (string, error) {
	if id, ok := strings.CutPrefix(urn, instanceURN); ok && isUUID(id) {
		return id, nil
	}
	return "", fmt.Errorf("%.100q is not %s<uuid>", urn, instanceURN)
}

// isUUID reports whether the text is a UUID in a form that the reference implementation accepts: 32
// hexadecimal digits, perhaps with hyphens, braces, and the prefixes urn: and uuid:.
func isUUID(text string) bool {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "urn:", ""), "uuid:", "")
	text = strings.ReplaceAll(strings.Trim(text, "{}"), "-", "")
	return len(text) == 32 && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// isBase64URL reports whether the text is not empty and holds only characters of base64url.
func isBase64URL(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return text != ""
}

// decodeCanonical decodes base64url without padding. It refuses a text whose last character has unused
// bits set, because then another text would decode to the same bytes.
func decodeCanonical(text, what string) ([]byte, error) {
	if isBase64URL(text) { // the decoder would skip line feeds
		if data, err := base64.RawURLEncoding.Strict().DecodeString(text); err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("%s is not canonical base64url", what)
}

// object decodes a JSON object that has exactly the members, each once. The names must be sorted.
func object(data []byte, what string, names ...string) (map[string]json.RawMessage, error) {
	members, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("%s is not a JSON object: %v", what, err)
	}
	for name := range members {
		if _, known := slices.BinarySearch(names, name); !known {
			return nil, fmt.Errorf("%s has an unexpected member %.50q", what, name)
		}
	}
	for _, name := range names {
		if members[name] == nil {
			return nil, fmt.Errorf("%s lacks the member %s", what, name)
		}
	}
	return members, nil
}

func decodeObject(data []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("it does not begin with a brace")
	}
	members := make(map[string]json.RawMessage)
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // a Decoder accepts nothing else as the name of a member
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		if members[name] != nil {
			return nil, fmt.Errorf("the member %.50q appears twice", name)
		}
		members[name] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("data follows it")
	}
	return members, nil
}

// text returns a member of an object that is a string.
func text(members map[string]json.RawMessage, name string) (value string, err error) {
	if raw := members[name]; len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &value) != nil {
		return "", fmt.Errorf("%s is not a string", name)
	}
	return value, nil
}
