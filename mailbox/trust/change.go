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

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// What Import and Revoke did with an entry.
const (
	Added     = "added"
	Unchanged = "unchanged"
	Skipped   = "skipped"
)

// An Imported is the result of Import. Catalog and Pins are Added, Unchanged or Skipped.
type Imported struct {
	KeyID       signing.KeyID    `json:"kid"`
	Agent       schema.AgentName `json:"agent"`
	Catalog     string           `json:"catalog"`
	Pins        string           `json:"pins"`
	CatalogPath string           `json:"catalog_path"`
	PinsPath    string           `json:"pins_path,omitempty"`
	Receiver    schema.AgentName `json:"receiver,omitempty"`
	// Others are the other keys that the receiver trusts to sign for the agent.
	Others []signing.KeyID `json:"other_kids,omitempty"`
}

// Import adds a public key to the catalog and to the pins of the receiver, or only to the catalog if
// receiver is empty. It locks out other processes that change trust in the workspace.
//
// It is an error if a file has another entry for the key's id. The catalog may then have
// the key nevertheless, which grants no trust.
func Import(ctx context.Context, w *mailbox.Workspace, stub signing.PublicStub, receiver schema.AgentName) (r Imported, err error) {
	r = Imported{KeyID: stub.KeyID, Agent: stub.Agent, Pins: Skipped, CatalogPath: filepath.Join(w.Dir(), catalogName)}
	if receiver != "" {
		if err := w.CheckAgent(receiver); err != nil {
			return r, err
		}
		r.Receiver, r.PinsPath = receiver, filepath.Join(w.Dir(), PinsName(receiver))
	}
	added := Entry{
		Agent: stub.Agent, Domain: Optional(stub.Domain()), Instance: Optional(stub.InstanceID()), KeyID: stub.KeyID, JWK: &stub.JWK,
		CreatedAt: Optional(stub.CreatedAt),
	}
	err = locked(ctx, w, func() error {
		listed, err := Catalog(w)
		if err == nil {
			listed, r.Catalog, err = put(listed, added, r.CatalogPath)
		}
		if err == nil && receiver != "" {
			_, err = signAnew(w, receiver, signing.AllowedSigners, nil) // without its key, nothing changes
		}
		if err == nil && r.Catalog == Added {
			err = write(w, catalogName, "entries", listed, nil)
		}
		if err == nil && receiver != "" {
			added.CreatedAt, added.Status = "", Active
			pins, err := Pins(w, receiver)
			if err == nil {
				pins, r.Pins, err = put(pins, added, r.PinsPath)
			}
			if err == nil && r.Pins == Added {
				err = writePins(w, receiver, pins)
			}
			if err != nil {
				return err
			}
			for _, p := range pins {
				if p.Agent == stub.Agent && p.Status == Active && p.KeyID != stub.KeyID {
					r.Others = append(r.Others, p.KeyID)
				}
			}
		}
		return err
	})
	return r, err
}

// conflict is the error of a file that has another entry for a key. Import never replaces an entry, and never reactivates a
// revoked pin: a person has to edit the file.
func conflict(format string, id signing.KeyID, file string) error {
	return failure.New("trust_conflict", fmt.Sprintf(format, id, file), "to trust the key as it is now, remove the entry from the file by hand")
}

// put adds an entry to those of a file, unless the file has it, and returns Added or Unchanged. It returns
// an error if the file has another entry for the id of the key.
func put(entries []Entry, added Entry, file string) ([]Entry, string, error) {
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.KeyID == added.KeyID })
	if i < 0 {
		return append(entries, added), Added, nil
	}
	differs := func(a, b Optional) bool { return a != "" && b != "" && a != b }
	switch e := entries[i]; {
	case e.Status == Revoked:
		return nil, "", conflict("key %s is revoked in %s", e.KeyID, file)
	case e.Agent != added.Agent || differs(e.Domain, added.Domain) || differs(e.Instance, added.Instance):
		return nil, "", conflict("key %s is in %s with another agent, domain or instance", e.KeyID, file)
	}
	return entries, Unchanged, nil
}

// Revocation is the result of Revoke.
type Revocation struct {
	KeyID signing.KeyID `json:"kid"`
	// Receivers maps each receiver that has pinned the key to Revoked or Unchanged.
	Receivers map[schema.AgentName]string `json:"receivers"`
	// Revoked lists the receivers whose pin was active.
	Revoked []schema.AgentName `json:"revoked"`
	// Failed maps each receiver whose pins could not be changed to the reason.
	Failed map[schema.AgentName]string `json:"failed,omitempty"`
}

// Revoke revokes the pin of a key for a receiver or, if receiver is empty, for every agent that has one.
// A file that cannot be used prevents no other change: the error then joins those of all such files. Without
// a pin, it is another one.
func Revoke(ctx context.Context, w *mailbox.Workspace, id signing.KeyID, receiver schema.AgentName) (Revocation, error) {
	r := Revocation{id, make(map[schema.AgentName]string), []schema.AgentName{}, make(map[schema.AgentName]string)}
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
		var failed []error
		for _, agent := range receivers {
			pins, err := Pins(w, agent)
			i := slices.IndexFunc(pins, func(p Entry) bool { return p.KeyID == id })
			switch {
			case i < 0:
			case pins[i].Status == Revoked:
				r.Receivers[agent] = Unchanged
			default:
				pins[i].Status = Revoked
				if err = writePins(w, agent, pins); err == nil {
					r.Receivers[agent] = Revoked
					r.Revoked = append(r.Revoked, agent)
				}
			}
			if err != nil {
				r.Failed[agent] = err.Error()
				failed = append(failed, fmt.Errorf("%s: %w", agent, err))
			}
		}
		if len(r.Receivers)+len(failed) == 0 {
			problem := fmt.Sprintf("%s has not pinned the key %s", receiver, id)
			if receiver == "" {
				problem = fmt.Sprintf("no agent has pinned the key %s", id)
			}
			return failure.New("not_pinned", problem, "oacp trust list shows who trusts which key")
		}
		return errors.Join(failed...)
	})
	return r, err
}

// OtherMachines returns the ids of the other machines on which, by the catalog, the agents have keys, and so pins. If
// it lists none, it returns a text for all.
func OtherMachines(w *mailbox.Workspace, agents []schema.AgentName) (machines []string) {
	home, _ := w.Home() // without one, the catalog is as good
	own := signing.NewStore(home).Instance()
	listed, _ := Catalog(w) // without one, nobody knows the machines
	for _, l := range listed {
		if id := string(l.Instance); id != "" && id != own && slices.Contains(agents, l.Agent) {
			machines = append(machines, "machine "+id+" of "+string(l.Agent))
		}
	}
	if slices.Sort(machines); len(machines) == 0 {
		return []string{"any other machine of this workspace"}
	}
	return slices.Compact(machines)
}

// locked calls change while no other process changes trust in the workspace. It locks the same file as
// the reference implementation.
func locked(ctx context.Context, w *mailbox.Workspace, change func() error) error {
	if err := w.MakeFolder(folderName); err != nil {
		return err
	}
	dir, err := durable.OpenDir(w.Root(), w.Dir(), folderName)
	if err != nil {
		return err
	}
	return errors.Join(dir.Locked(ctx, path.Base(catalogName)+".lock", change), dir.Close())
}

// writePins replaces the pins of a receiver, and signs them if they were signed.
func writePins(w *mailbox.Workspace, receiver schema.AgentName, pins []Entry) error {
	return write(w, PinsName(receiver), "signers", pins, func(content []byte) ([]byte, error) {
		return signAnew(w, receiver, signing.AllowedSigners, content)
	})
}

// write replaces a trust file. It sorts the entries by agent and key, and signs the file unless sign is nil.
func write(w *mailbox.Workspace, name, list string, entries []Entry, sign func([]byte) ([]byte, error)) error {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.KeyID, b.KeyID))
	})
	var out bytes.Buffer
	fmt.Fprintf(&out, "version: %s\n", fileVersion)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(map[string][]Entry{list: entries}), encoder.Close()); err != nil {
		return err
	}
	data, err := out.Bytes(), w.MakeFolder(path.Dir(name))
	if err == nil && sign != nil {
		data, err = sign(data)
	}
	if err != nil {
		return err
	}
	return durable.ReplaceFile(w.Root(), w.Dir(), name, data, 0o644)
}
