// Package trust manages the keys that the agents of a workspace trust. It keeps the pins of each receiver
// and the catalog of the workspace, and verifies messages against the pins. It holds messages that are not
// verified if the receiver's settings ask for that, and signs messages if the sender's settings do. It also
// signs and verifies the files with these settings.
//
// The files are those of the reference implementation:
//
//	agents/<receiver>/trust/allowed_signers.yaml   the pins: only these grant trust
//	trust/catalog.yaml                             who is who; being listed grants nothing
//	agents/<agent>/config.yaml                     the section signing
//	$OACP_HOME/keys/policy_enrollment.json         which of these files count only with a signature
package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// Names in a workspace.
const (
	folderName = "trust"
	// CatalogName is the path of the catalog below the workspace.
	CatalogName = folderName + "/catalog.yaml"
	// maxFile is the largest trust file or configuration, in bytes.
	maxFile = 1 << 20
	// fileVersion is the version of the trust files.
	fileVersion = "1"
)

// PinsName returns the path of the pins of a receiver below the workspace.
func PinsName(receiver schema.AgentName) string {
	return schema.AgentPath(receiver, folderName+"/allowed_signers.yaml")
}

// A FileError reports that a trust file cannot be used.
type FileError struct {
	Path string
	// Err names the file.
	Err error
}

// Error names the file and says what is wrong with it.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Optional is a text that is null in files and JSON if it is empty.
type Optional string

// MarshalJSON returns null for an empty text.
func (o Optional) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("null"), nil
	}
	return schema.TextValue(string(o)).MarshalJSON()
}

// MarshalYAML returns null for an empty text.
func (o Optional) MarshalYAML() (any, error) {
	if o == "" {
		return nil, nil
	}
	return string(o), nil
}

// The states of a pin.
const (
	Active  = "active"
	Revoked = "revoked"
)

// An Entry is a key, and the agent that signs with it, in the catalog or in the pins of a receiver.
type Entry struct {
	Agent schema.AgentName `json:"agent" yaml:"agent"`
	// Domain and Instance are the trust domain and the machine. They have no meaning yet.
	Domain   Optional      `json:"domain" yaml:"domain"`
	Instance Optional      `json:"instance" yaml:"instance"`
	KeyID    signing.KeyID `json:"kid" yaml:"kid"`
	// JWK is nil only for a revoked pin without a key.
	JWK *signing.JWK `json:"jwk" yaml:"jwk"`
	// CreatedAt is empty in pins. Status is Active or Revoked, and empty in the catalog.
	CreatedAt Optional `json:"created_at_utc,omitempty" yaml:"created_at_utc,omitempty"`
	Status    string   `json:"status,omitempty" yaml:"status,omitempty"`
}

// Catalog returns the entries of the workspace's catalog. A missing file is empty; the error is a
// *FileError if the file cannot be used.
func Catalog(w *mailbox.Workspace) ([]Entry, error) {
	full, data, err := read(w, CatalogName)
	if err != nil || data == nil {
		return nil, err
	}
	entries, err := parse(full, data, "entries")
	for i := range entries {
		entries[i].Status = ""
	}
	return entries, err
}

// Pins returns the pins of a receiver. A missing file is empty; the error is a *FileError or a *PolicyError if
// the file cannot be used.
func Pins(w *mailbox.Workspace, receiver schema.AgentName) ([]Entry, error) {
	full, data, err := readPolicy(w, receiver, signing.AllowedSigners)
	if err != nil || data == nil {
		return nil, err
	}
	return ParsePins(full, data)
}

// ParsePins returns the pins in a file; errors name its path.
func ParsePins(file string, data []byte) ([]Entry, error) {
	entries, err := parse(file, data, "signers")
	for i := range entries {
		entries[i].CreatedAt = ""
	}
	return entries, err
}

// Keys returns the pins in the form that signing.Verify takes.
func Keys(pins []Entry) signing.Pins {
	keys := make(signing.Pins, len(pins))
	for _, p := range pins {
		pin := signing.Pin{Agent: p.Agent, Revoked: p.Status == Revoked}
		if p.JWK != nil {
			pin.Key, _ = p.JWK.PublicKey() // ParsePins has checked it
		}
		keys[p.KeyID] = pin
	}
	return keys
}

// read returns the path and the bytes of a file of the workspace; no bytes if there is no such file.
func read(w *mailbox.Workspace, name string) (full string, data []byte, err error) {
	full = filepath.Join(w.Dir(), filepath.FromSlash(name))
	data, err = durable.ReadFile(w.Root(), w.Dir(), name, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return full, nil, nil
	case err != nil:
		return full, nil, &FileError{full, err}
	case data == nil:
		data = []byte{}
	}
	return full, data, nil
}

// parse returns the entries of a trust file that are listed under the key. One entry that is wrong
// makes the whole file useless: nobody may lose or gain trust by a mistake in it.
func parse(file string, data []byte, list string) ([]Entry, error) {
	entries, err := parseFile(data, list)
	if err != nil {
		return nil, &FileError{file, fmt.Errorf("%s: %w", file, err)}
	}
	return entries, nil
}

func parseFile(data []byte, list string) ([]Entry, error) {
	var fields map[string]yaml.Node
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	version := fields["version"]
	if version.Value != fileVersion {
		return nil, fmt.Errorf("version is %q; want %s", version.Value, fileVersion)
	}
	items := fields[list]
	if isNull(items) {
		return nil, nil
	}
	var nodes []map[string]yaml.Node
	if err := items.Decode(&nodes); err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	entries := make([]Entry, len(nodes))
	seen := make(map[signing.KeyID]bool)
	for i, node := range nodes {
		e, err := parseEntry(node)
		if err == nil && seen[e.KeyID] {
			err = fmt.Errorf("the key %s appears twice", e.KeyID)
		}
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", list, i, err)
		}
		seen[e.KeyID] = true
		entries[i] = e
	}
	return entries, nil
}

func parseEntry(node map[string]yaml.Node) (e Entry, err error) {
	var kid, agent, domain, instance, status, created string
	for _, field := range []struct {
		name     string
		to       *string
		required bool
	}{
		{"kid", &kid, true}, {"agent", &agent, true}, {"domain", &domain, false}, {"instance", &instance, false},
		{"status", &status, false}, {"created_at_utc", &created, false},
	} {
		if *field.to, err = textOf(node, field.name); err != nil {
			return e, err
		}
		if field.required && *field.to == "" {
			return e, fmt.Errorf("%s is missing", field.name)
		}
	}
	e.Domain, e.Instance, e.CreatedAt = Optional(domain), Optional(instance), Optional(created)
	if e.KeyID, err = signing.ParseKeyID(kid); err != nil {
		return e, err
	}
	if e.Agent, err = schema.ParseAgentName(agent); err != nil {
		return e, err
	}
	switch e.Status = strings.ToLower(status); e.Status {
	case "":
		e.Status = Active
	case Active, Revoked:
	default:
		return e, fmt.Errorf("status %q is neither %s nor %s", status, Active, Revoked)
	}
	if isNull(node["jwk"]) && e.Status == Revoked {
		return e, nil
	}
	e.JWK, err = parseJWK(node["jwk"], e.KeyID)
	return e, err
}

// parseJWK returns a public key that has the id. Other members than those of a public key are
// refused, so that no private key gets into a trust file.
func parseJWK(node yaml.Node, id signing.KeyID) (*signing.JWK, error) {
	var members map[string]yaml.Node
	if err := node.Decode(&members); err != nil {
		return nil, fmt.Errorf("jwk: %w", err)
	}
	var jwk signing.JWK
	for name, to := range map[string]*string{"kty": &jwk.Type, "crv": &jwk.Curve, "x": &jwk.X} {
		value, err := textOf(members, name)
		if err != nil {
			return nil, fmt.Errorf("jwk: %w", err)
		}
		*to = value
		delete(members, name)
	}
	for name := range members {
		return nil, fmt.Errorf("jwk has a member %q; a public key has kty, crv and x", name)
	}
	if _, err := jwk.PublicKey(); err != nil {
		return nil, fmt.Errorf("jwk: %w", err)
	}
	if jwk.ID() != id {
		return nil, fmt.Errorf("kid is not the thumbprint of the key, which is %s", jwk.ID())
	}
	return &jwk, nil
}

func isNull(node yaml.Node) bool { return node.IsZero() || node.ShortTag() == "!!null" }

// textOf returns a text without outer white space; empty if it is null or absent.
func textOf(node map[string]yaml.Node, name string) (string, error) {
	value := node[name]
	if isNull(value) {
		return "", nil
	}
	text := strings.TrimSpace(value.Value)
	if tag := value.ShortTag(); value.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!timestamp" || text == "" {
		return "", fmt.Errorf("%s is not text", name)
	}
	return text, nil
}
