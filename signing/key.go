package signing

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/schema"
)

// A KeyID names a key: the thumbprint of its JWK according to RFC 7638, 43 characters of base64url.
type KeyID string

// ParseKeyID returns the key id in the text.
func ParseKeyID(text string) (KeyID, error) {
	const length = 43
	if len(text) != length {
		return "", fmt.Errorf("a key id is a thumbprint of %d characters, and %.60q has %d", length, text, len(text))
	}
	if _, err := decodeCanonical(text, "the key id"); err != nil {
		return "", err
	}
	return KeyID(text), nil
}

// A JWK is a public Ed25519 key in JSON (RFC 8037).
type JWK struct {
	Type  string `json:"kty" yaml:"kty"`
	Curve string `json:"crv" yaml:"crv"`
	// X is the key in base64url.
	X string `json:"x" yaml:"x"`
}

const (
	keyType  = "OKP"
	keyCurve = "Ed25519"
)

func newJWK(key ed25519.PublicKey) JWK {
	return JWK{keyType, keyCurve, base64.RawURLEncoding.EncodeToString(key)}
}

// PublicKey returns the key, or an error if the JWK is not an Ed25519 key in canonical form.
func (j JWK) PublicKey() (ed25519.PublicKey, error) {
	if j.Type != keyType || j.Curve != keyCurve {
		return nil, fmt.Errorf("the key is not a public Ed25519 key (kty %s, crv %s)", keyType, keyCurve)
	}
	key, err := decodeCanonical(j.X, "the key's x")
	if err == nil && len(key) != ed25519.PublicKeySize {
		err = fmt.Errorf("the key has %d bytes; want %d", len(key), ed25519.PublicKeySize)
	}
	if err == nil && hasLowOrder(key) {
		err = errors.New("the key is a point of low order: anybody can sign with it")
	}
	return key, err
}

// lowOrder are the encodings of the points whose order divides 8, without the sign bit, in hexadecimal. Zero, one and
// minus one have a second encoding.
var lowOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

func hasLowOrder(key ed25519.PublicKey) bool {
	y := slices.Clone(key)
	y[len(y)-1] &= 0x7f
	return slices.Contains(lowOrder, hex.EncodeToString(y))
}

// ID returns the id of the key.
func (j JWK) ID() KeyID {
	sum := sha256.Sum256([]byte(`{"crv":"` + j.Curve + `","kty":"` + j.Type + `","x":"` + j.X + `"}`))
	return KeyID(base64.RawURLEncoding.EncodeToString(sum[:]))
}

// A Key signs messages of one agent on one machine.
type Key struct {
	ID        KeyID
	Agent     schema.AgentName
	CreatedAt schema.Timestamp
	// Domain and Instance are the UUIDs of the trust domain and of the machine.
	Domain   string
	Instance string
	// Path is the file of a key in a Store.
	Path string

	private ed25519.PrivateKey
}

// NewKey returns the key of a private seed of 32 bytes. Domain and instance are UUIDs.
func NewKey(seed []byte, agent schema.AgentName, domain, instance string) (*Key, error) {
	switch {
	case len(seed) != ed25519.SeedSize:
		return nil, fmt.Errorf("the private key has %d bytes; want %d", len(seed), ed25519.SeedSize)
	case !isUUID(domain) || !isUUID(instance):
		return nil, errors.New("the trust domain or the machine id is not a UUID")
	}
	k := &Key{Agent: agent, Domain: domain, Instance: instance, private: ed25519.NewKeyFromSeed(seed)}
	k.ID = k.JWK().ID()
	return k, nil
}

// StubPath returns the file of the public half of a key in a Store.
func (k *Key) StubPath() string { return strings.TrimSuffix(k.Path, keySuffix) + stubSuffix }

// JWK returns the public half.
func (k *Key) JWK() JWK { return newJWK(k.private.Public().(ed25519.PublicKey)) }

// AgentURN returns what signatures say about the agent.
func (k *Key) AgentURN() string { return agentURN + k.Domain + ":" + string(k.Agent) }

// InstanceURN returns what signatures say about the machine.
func (k *Key) InstanceURN() string { return instanceURN + k.Instance }

// Sign appends the trailer with a signature of each key to a message file.
func Sign(file []byte, keys ...*Key) ([]byte, error) {
	switch _, auth, _ := Split(file); {
	case auth != "":
		return nil, errors.New("the file is already signed")
	case len(file) == 0 || file[len(file)-1] != '\n':
		return nil, errors.New("the file does not end in a line feed")
	case len(keys) == 0 || len(keys) > maxSignatures:
		return nil, fmt.Errorf("there are %d keys; want 1 to %d", len(keys), maxSignatures)
	}
	entries := make([]entry, len(keys))
	for i, k := range keys {
		entries[i] = k.sign(messages.header(k, ""), file)
	}
	return messages.seal(file, entries)
}

// A PublicStub is the file with the public half of a key, which the agent gives to others.
type PublicStub struct {
	KeyID     KeyID            `json:"kid"`
	JWK       JWK              `json:"jwk"`
	Agent     schema.AgentName `json:"agent"`
	AgentURN  string           `json:"agent_urn"`
	Instance  string           `json:"instance_urn"`
	CreatedAt schema.Timestamp `json:"created_at_utc,omitempty"`
}

// ParsePublicStub decodes the file of a public key and checks that its parts fit each other. It ignores
// unknown members, but refuses them in the key itself, so that nobody imports a private key.
func ParsePublicStub(data []byte) (stub PublicStub, err error) {
	members, err := decodeObject(data)
	if err != nil {
		return stub, fmt.Errorf("the file is not a JSON object: %v", err)
	}
	if _, err := object(members["jwk"], "jwk", "crv", "kty", "x"); err != nil {
		return stub, err
	}
	if err := json.Unmarshal(data, &stub); err != nil {
		return stub, fmt.Errorf("the file is not a public key: %v", err)
	}
	if _, err = ParseKeyID(string(stub.KeyID)); err != nil {
		return stub, err
	}
	if _, err := stub.JWK.PublicKey(); err != nil {
		return stub, err
	}
	if id := stub.JWK.ID(); id != stub.KeyID {
		return stub, fmt.Errorf("kid is not the thumbprint of the key, which is %s", id)
	}
	if _, name, err := parseAgentURN(stub.AgentURN); err != nil {
		return stub, err
	} else if name != stub.Agent {
		return stub, fmt.Errorf("agent is %.70q, but agent_urn names %s", stub.Agent, name)
	}
	_, err = parseInstanceURN(stub.Instance)
	return stub, err
}

// Domain returns the UUID of the trust domain.
func (s PublicStub) Domain() string {
	domain, _, _ := parseAgentURN(s.AgentURN)
	return domain
}

// InstanceID returns the UUID of the machine.
func (s PublicStub) InstanceID() string {
	id, _ := parseInstanceURN(s.Instance)
	return id
}
