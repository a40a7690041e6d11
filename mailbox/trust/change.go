package trust

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// What Import and Revoke did with an entry.
const (
	Added     = "added"
	Updated   = "updated"
	Unchanged = "unchanged"
	Skipped   = "skipped"
)

// A ConflictError reports that a trust file holds something else under the id of a key. Import never
// replaces it, and never makes a revoked pin active again: a person has to edit the file.
type ConflictError struct {
	KeyID signing.KeyID
	Path  string
	// Revoked reports whether the pin is revoked. Otherwise the agent or the machine differs.
	Revoked bool
}

// Error names the key and the file.
func (e *ConflictError) Error() string {
	if e.Revoked {
		return fmt.Sprintf("key %s is revoked in %s", e.KeyID, e.Path)
	}
	return fmt.Sprintf("key %s is in %s with another agent, domain or instance", e.KeyID, e.Path)
}

// A NotPinnedError reports that a receiver, or no receiver of the workspace, has pinned a key.
type NotPinnedError struct {
	KeyID    signing.KeyID
	Receiver schema.AgentName
}

// Error names the key and the receiver.
func (e *NotPinnedError) Error() string {
	if e.Receiver == "" {
		return fmt.Sprintf("no agent has pinned the key %s", e.KeyID)
	}
	return fmt.Sprintf("%s has not pinned the key %s", e.Receiver, e.KeyID)
}

// An Imported is the result of Import. Catalog and Pins are Added, Updated, Unchanged or Skipped.
type Imported struct {
	KeyID       signing.KeyID    `json:"kid"`
	Agent       schema.AgentName `json:"agent"`
	Catalog     string           `json:"catalog"`
	Pins        string           `json:"pins"`
	CatalogPath string           `json:"catalog_path"`
	PinsPath    string           `json:"pins_path,omitempty"`
	Receiver    schema.AgentName `json:"receiver,omitempty"`
}

// Import adds a public key to the catalog and to the pins of the receiver, or only to the catalog if
// no receiver is named. Other processes that change trust in the workspace wait meanwhile.
//
// The error is a *ConflictError if a file holds something else under the key's id; then the catalog
// may have the key all the same, which grants nothing.
func Import(ctx context.Context, w *mailbox.Workspace, stub signing.PublicStub, receiver schema.AgentName) (r Imported, err error) {
	r = Imported{KeyID: stub.KeyID, Agent: stub.Agent, Pins: Skipped, CatalogPath: filepath.Join(w.Dir(), CatalogName)}
	if receiver != "" {
		if err := w.CheckAgent(receiver); err != nil {
			return r, err
		}
		r.Receiver, r.PinsPath = receiver, filepath.Join(w.Dir(), PinsName(receiver))
	}
	new := Entry{
		Agent: stub.Agent, Domain: Optional(stub.Domain()), Instance: Optional(stub.InstanceID()), KeyID: stub.KeyID, JWK: &stub.JWK,
	}
	isNew := func(e Entry) bool { return e.KeyID == stub.KeyID }
	err = locked(ctx, w, func() error {
		listed, err := Catalog(w)
		if err != nil {
			return err
		}
		var sign func([]byte) ([]byte, error)
		if receiver != "" {
			if sign, err = signerOf(w, receiver); err != nil {
				return err
			}
		}
		i := slices.IndexFunc(listed, isNew)
		if i < 0 {
			new.CreatedAt = Optional(stub.CreatedAt)
			listed, r.Catalog = append(listed, new), Added
		} else if r.Catalog, err = listed[i].merge(new, r.CatalogPath); err != nil {
			return err
		}
		if r.Catalog != Unchanged {
			if err := write(w, CatalogName, "entries", listed, nil); err != nil {
				return err
			}
		}
		if receiver == "" {
			return nil
		}
		pins, err := Pins(w, receiver)
		if err != nil {
			return err
		}
		i = slices.IndexFunc(pins, isNew)
		switch {
		case i < 0:
			new.CreatedAt, new.Status = "", Active
			pins, r.Pins = append(pins, new), Added
		case pins[i].Status == Revoked:
			return &ConflictError{KeyID: stub.KeyID, Path: r.PinsPath, Revoked: true}
		default:
			if r.Pins, err = pins[i].merge(new, r.PinsPath); err != nil {
				return err
			}
		}
		if r.Pins == Unchanged {
			return nil
		}
		return write(w, PinsName(receiver), "signers", pins, sign)
	})
	return r, err
}

// merge fills in the domain and the instance of an entry if they are missing, and returns Updated or
// Unchanged. The error is a *ConflictError if the entry says something else.
func (e *Entry) merge(other Entry, file string) (string, error) {
	differs := func(a, b Optional) bool { return a != "" && b != "" && a != b }
	if e.Agent != other.Agent || differs(e.Domain, other.Domain) || differs(e.Instance, other.Instance) {
		return "", &ConflictError{KeyID: e.KeyID, Path: file}
	}
	before := *e
	e.Domain, e.Instance = cmp.Or(e.Domain, other.Domain), cmp.Or(e.Instance, other.Instance)
	if *e == before {
		return Unchanged, nil
	}
	return Updated, nil
}

// Revocation is the result of Revoke.
type Revocation struct {
	KeyID signing.KeyID `json:"kid"`
	// Receivers maps each receiver that has pinned the key to Revoked or Unchanged.
	Receivers map[schema.AgentName]string `json:"receivers"`
	// Revoked are those whose pin was active.
	Revoked []schema.AgentName `json:"revoked"`
}

// Revoke revokes the pin of a key for a receiver or, if none is named, for every receiver that has
// one. All files are read before the first is written: either every pin can be revoked, or none is.
// The error is a *NotPinnedError if there is no pin.
func Revoke(ctx context.Context, w *mailbox.Workspace, id signing.KeyID, receiver schema.AgentName) (Revocation, error) {
	r := Revocation{id, make(map[schema.AgentName]string), []schema.AgentName{}}
	receivers := []schema.AgentName{receiver}
	var err error
	if receiver != "" {
		if err := w.CheckAgent(receiver); err != nil {
			return r, err
		}
	} else if receivers, err = w.Agents(); err != nil {
		return r, err
	}
	err = locked(ctx, w, func() error {
		changed := make(map[schema.AgentName][]Entry)
		sign := make(map[schema.AgentName]func([]byte) ([]byte, error))
		for _, agent := range receivers {
			pins, err := Pins(w, agent)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(pins, func(p Entry) bool { return p.KeyID == id })
			switch {
			case i < 0:
			case pins[i].Status == Revoked:
				r.Receivers[agent] = Unchanged
			default:
				pins[i].Status = Revoked
				if sign[agent], err = signerOf(w, agent); err != nil {
					return err
				}
				changed[agent] = pins
				r.Receivers[agent] = Revoked
				r.Revoked = append(r.Revoked, agent)
			}
		}
		if len(r.Receivers) == 0 {
			return &NotPinnedError{id, receiver}
		}
		for _, agent := range r.Revoked {
			if err := write(w, PinsName(agent), "signers", changed[agent], sign[agent]); err != nil {
				return err
			}
		}
		return nil
	})
	return r, err
}

// locked calls change while no other process changes trust in the workspace. The lock file is the
// one of the reference implementation.
func locked(ctx context.Context, w *mailbox.Workspace, change func() error) (err error) {
	if err := w.MakeFolder(folderName); err != nil {
		return err
	}
	dir, err := durable.OpenDir(w.Root(), w.Dir(), folderName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return underLock(ctx, dir, path.Base(CatalogName), change)
}

// underLock calls change while this process holds the lock of a file, which is another file beside
// it.
func underLock(ctx context.Context, dir *durable.Dir, file string, change func() error) (err error) {
	const retry = 10 * time.Millisecond
	lock := dir.NewLock(file + ".lock")
	if _, err := lock.TryLockContext(ctx, retry); err != nil {
		return fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return change()
}

// write replaces a trust file, and signs it unless sign is nil. It sorts the entries by agent and key.
func write(w *mailbox.Workspace, name, list string, entries []Entry, sign func([]byte) ([]byte, error)) error {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.KeyID, b.KeyID))
	})
	var items yaml.Node
	if err := items.Encode(entries); err != nil {
		return err
	}
	scalar := func(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
	document := yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		scalar("version"), scalar(fileVersion), scalar(list), &items,
	}}
	data, err := encode(&document)
	if err == nil && sign != nil {
		data, err = sign(data)
	}
	if err != nil {
		return err
	}
	if err := w.MakeFolder(path.Dir(name)); err != nil {
		return err
	}
	return durable.ReplaceFile(w.Root(), w.Dir(), name, data, 0o644)
}

// encode returns a document as YAML that is indented by two spaces.
func encode(document *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := errors.Join(encoder.Encode(document), encoder.Close())
	return out.Bytes(), err
}
