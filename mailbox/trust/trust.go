// Package trust manages the keys that the agents of a workspace trust. It keeps the pins of each receiver
// and the catalog of the workspace. It verifies messages against the pins, holds unverified messages if
// the receiver's settings ask for that, and signs messages if the sender's settings do. It also signs and
// verifies the files with these settings, and keeps which messages were handled.
//
// The files are those of the reference implementation:
//
//	agents/<receiver>/trust/allowed_signers.yaml   the pins: only these grant trust
//	trust/catalog.yaml                             whose key is which; it grants no trust
//	agents/<agent>/config.yaml                     the section signing
//	$OACP_HOME/keys/policy_enrollment.json         which of these files count only with a signature
//
// $OACP_HOME/handled, which the reference implementation does not have, lists what agents have handled.
package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
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
	// catalogName is the path of the catalog below the workspace.
	catalogName = folderName + "/catalog.yaml"
	// maxFile is the largest trust file or configuration, in bytes.
	maxFile = 1 << 20
	// fileVersion is the version of the trust files.
	fileVersion = "1"
)

// PinsName returns the path of the pins of a receiver below the workspace.
func PinsName(receiver schema.AgentName) string {
	return schema.AgentPath(receiver, folderName+"/allowed_signers.yaml")
}

// A FileError reports that a trust file cannot be used. Err names the file.
type FileError struct{ Err error }

func (e *FileError) Error() string { return e.Err.Error() }

func (e *FileError) Explain() (code, hint string) {
	return "bad_trust", "fix the file, or move it away and import the keys again; until then it grants nothing"
}

func (e *FileError) Unwrap() error { return e.Err }

// Optional is a text that files and JSON represent as null if it is empty.
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

// UnmarshalYAML reads a text without outer white space. The decoder does not call it for null.
func (o *Optional) UnmarshalYAML(node *yaml.Node) error {
	text := strings.TrimSpace(node.Value)
	if tag := node.ShortTag(); node.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!timestamp" || text == "" {
		return fmt.Errorf("line %d: this is not text", node.Line)
	}
	*o = Optional(text)
	return nil
}

// The states of a pin.
const (
	Active  = "active"
	Revoked = "revoked"
)

// An Entry is a key, and the agent that signs with it, in the catalog or in the pins of a receiver.
type Entry struct {
	Agent schema.AgentName `json:"agent" yaml:"agent"`
	// Domain and Instance are the trust domain and the machine. Verification ignores them.
	Domain   Optional      `json:"domain" yaml:"domain"`
	Instance Optional      `json:"instance" yaml:"instance"`
	KeyID    signing.KeyID `json:"kid" yaml:"kid"`
	// JWK is nil only for a revoked pin without a key.
	JWK *signing.JWK `json:"jwk" yaml:"jwk"`
	// CreatedAt is empty in pins. Status is Active or Revoked, and empty in the catalog.
	CreatedAt Optional `json:"created_at_utc,omitempty" yaml:"created_at_utc,omitempty"`
	Status    string   `json:"status,omitempty" yaml:"status,omitempty"`
}

// Catalog returns the entries of the workspace's catalog, none if there is no file. It returns a
// *FileError if the file cannot be used.
func Catalog(w *mailbox.Workspace) ([]Entry, error) {
	full, data, err := read(w, catalogName)
	if err != nil || data == nil {
		return nil, err
	}
	return parse(full, data, "entries")
}

// Pins returns the pins of a receiver, none if there is no file. It returns a *FileError or another error
// if the file cannot be used.
func Pins(w *mailbox.Workspace, receiver schema.AgentName) ([]Entry, error) {
	full, data, err := readPolicy(w, receiver, signing.AllowedSigners)
	if err != nil || data == nil {
		return nil, err
	}
	return ParsePins(full, data)
}

// ParsePins returns the pins in a file; errors name its path.
func ParsePins(file string, data []byte) ([]Entry, error) { return parse(file, data, "signers") }

// keysOf returns the pins in the form that signing.Verify takes.
func keysOf(pins []Entry) signing.Pins {
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

// read returns the path and the bytes of a file of the workspace, nil bytes if there is no such file.
func read(w *mailbox.Workspace, name string) (full string, data []byte, err error) {
	full = filepath.Join(w.Dir(), filepath.FromSlash(name))
	data, err = durable.ReadFile(w.Root(), w.Dir(), name, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return full, nil, nil
	case err != nil:
		return full, nil, &FileError{err}
	case data == nil:
		data = []byte{}
	}
	return full, data, nil
}

// An entryNode is an entry of a file before it is checked.
type entryNode struct {
	Agent     Optional `yaml:"agent"`
	Domain    Optional `yaml:"domain"`
	Instance  Optional `yaml:"instance"`
	KeyID     Optional `yaml:"kid"`
	CreatedAt Optional `yaml:"created_at_utc"`
	Status    Optional `yaml:"status"`
	JWK       *struct {
		Type  Optional `yaml:"kty"`
		Curve Optional `yaml:"crv"`
		X     Optional `yaml:"x"`
		// Other holds the members that a public key does not have, such as a private key. They are errors.
		Other map[string]yaml.Node `yaml:",inline"`
	} `yaml:"jwk"`
}

// parse returns the entries of a trust file, which are under the key list: entries for a catalog, signers for pins.
// One wrong entry makes the whole file unusable: a mistake in the file must neither grant nor revoke trust.
func parse(path string, data []byte, list string) (entries []Entry, err error) {
	defer func() {
		if err != nil {
			entries, err = nil, &FileError{fmt.Errorf("%s: %w", path, err)}
		}
	}()
	var file struct {
		Version string      `yaml:"version"`
		Entries []entryNode `yaml:"entries"`
		Signers []entryNode `yaml:"signers"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	if file.Version != fileVersion {
		return nil, fmt.Errorf("version is %q; want %s", file.Version, fileVersion)
	}
	isCatalog, nodes := list == "entries", file.Signers
	if isCatalog {
		nodes = file.Entries
	}
	for i, node := range nodes {
		e, err := node.entry()
		if err == nil && slices.ContainsFunc(entries, func(other Entry) bool { return other.KeyID == e.KeyID }) {
			err = fmt.Errorf("the key %s appears twice", e.KeyID)
		}
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", list, i, err)
		}
		if isCatalog {
			e.Status = ""
		} else {
			e.CreatedAt = ""
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// entry returns the entry if its parts fit each other.
func (n *entryNode) entry() (e Entry, err error) {
	e = Entry{Domain: n.Domain, Instance: n.Instance, CreatedAt: n.CreatedAt, Status: strings.ToLower(string(n.Status))}
	if n.KeyID == "" {
		return e, errors.New("kid is missing")
	}
	if e.KeyID, err = signing.ParseKeyID(string(n.KeyID)); err != nil {
		return e, err
	}
	if e.Agent, err = schema.ParseAgentName(string(n.Agent)); err != nil {
		return e, err
	}
	switch e.Status {
	case "":
		e.Status = Active
	case Active, Revoked:
	default:
		return e, fmt.Errorf("status %q is neither %s nor %s", e.Status, Active, Revoked)
	}
	switch {
	case n.JWK == nil && e.Status == Revoked:
		return e, nil
	case n.JWK == nil:
		return e, errors.New("jwk is missing")
	case len(n.JWK.Other) > 0:
		return e, errors.New("jwk has other members than those of a public key: kty, crv and x")
	}
	e.JWK = &signing.JWK{Type: string(n.JWK.Type), Curve: string(n.JWK.Curve), X: string(n.JWK.X)}
	if _, err := e.JWK.PublicKey(); err != nil {
		return e, fmt.Errorf("jwk: %w", err)
	}
	if e.JWK.ID() != e.KeyID {
		return e, fmt.Errorf("kid is not the thumbprint of the key, which is %s", e.JWK.ID())
	}
	return e, nil
}
