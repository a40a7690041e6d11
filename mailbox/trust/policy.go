package trust

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// A PolicyError reports that a policy file is ignored: its agent signs it, and it has no good signature
// now.
type PolicyError struct {
	Agent schema.AgentName
	Path  string
	// Err does not name the file.
	Err error
}

// Error names the file and says what is wrong with its signature.
func (e *PolicyError) Error() string { return fmt.Sprintf("%s is not authorized: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *PolicyError) Unwrap() error { return e.Err }

// configName returns the path of an agent's settings below the workspace.
func configName(agent schema.AgentName) string { return schema.AgentPath(agent, "config.yaml") }

func policyName(agent schema.AgentName, kind signing.PolicyKind) string {
	if kind == signing.ReceiverConfig {
		return configName(agent)
	}
	return PinsName(agent)
}

// policyOf returns the policy that a file of an agent holds. A workspace that is not a project of the home
// has its path for a project.
func policyOf(w *mailbox.Workspace, home string, agent schema.AgentName, kind signing.PolicyKind) (p signing.Policy, err error) {
	p = signing.Policy{Kind: kind, Receiver: agent}
	if p.Project, err = filepath.EvalSymlinks(w.Dir()); err != nil {
		return p, err
	}
	projects, err := filepath.Abs(filepath.Join(home, "projects"))
	if err != nil {
		return p, err
	}
	if real, err := filepath.EvalSymlinks(projects); err == nil && real == filepath.Dir(p.Project) {
		p.Project = filepath.Base(p.Project)
	}
	return p, nil
}

// readPolicy returns the path and the bytes of a policy file; no bytes if there is no such file. The error is
// a *PolicyError if the file was ever signed on this machine, or is signed, and has no good signature.
func readPolicy(w *mailbox.Workspace, agent schema.AgentName, kind signing.PolicyKind) (full string, data []byte, err error) {
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return "", nil, err
	}
	full, data, err = read(w, policyName(agent, kind))
	if err != nil {
		return full, nil, err
	}
	if err := checkPolicy(w, agent, kind, data); err != nil {
		return full, nil, &PolicyError{agent, full, err}
	}
	return full, data, nil
}

func checkPolicy(w *mailbox.Workspace, agent schema.AgentName, kind signing.PolicyKind, data []byte) error {
	home, _ := w.Home() // without one, no key is on this machine, and nothing is enrolled
	_, auth, malformed := signing.Split(data)
	signed := auth != "" || malformed != nil
	list, err := readEnrollment(home)
	if err != nil || !signed && len(list.Enrolled) == 0 {
		return err
	}
	p, err := policyOf(w, home, agent, kind)
	if err != nil {
		return err
	}
	if signed {
		var keys []signing.PublicStub
		if home != "" {
			keys, err = signing.NewStore(home).Stubs(agent)
		}
		return cmp.Or(err, signing.VerifyPolicy(data, p, keys))
	}
	if _, enrolled := list.Enrolled[p.Key()]; enrolled && data == nil {
		return errors.New("the file is missing")
	} else if enrolled {
		return signing.ErrNotSigned
	}
	return nil
}

// ReadConfig returns the bytes of an agent's config.yaml, none if there is no such file. The error may be a
// *PolicyError.
func ReadConfig(w *mailbox.Workspace, agent schema.AgentName) ([]byte, error) {
	_, data, err := readPolicy(w, agent, signing.ReceiverConfig)
	return data, err
}

// enrollmentName is the file, below the home, that lists the policies that were signed on this machine. It is
// in no workspace, so whoever can write to a workspace cannot make a signed policy an unsigned one.
const enrollmentName = "keys/policy_enrollment.json"

type enrollment struct {
	Version  int                      `json:"version"`
	Enrolled map[string]enrolledEntry `json:"enrolled"`
}

type enrolledEntry struct {
	At    schema.Timestamp `json:"enrolled_at_utc"`
	KeyID signing.KeyID    `json:"kid"`
}

// readEnrollment reads the list in a home. A missing one is empty. If it cannot be read, nobody knows which
// policies are signed, so none counts.
func readEnrollment(home string) (list enrollment, err error) {
	list = enrollment{Version: 1, Enrolled: make(map[string]enrolledEntry)}
	if home == "" {
		return list, nil
	}
	path := filepath.Join(home, filepath.FromSlash(enrollmentName))
	var data []byte
	dir, err := durable.OpenPath(filepath.Dir(path))
	if err == nil {
		data, err = dir.ReadFile(filepath.Base(path), maxFile)
		err = errors.Join(err, dir.Close())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err == nil {
		list.Enrolled = nil
		err = json.Unmarshal(data, &list)
	}
	if err == nil && list.Enrolled == nil {
		err = errors.New("it has no object enrolled")
	}
	if err != nil {
		return list, fmt.Errorf("the list of signed files, %s, cannot be read: %w", path, err)
	}
	return list, nil
}

// enroll adds policies to the list.
func enroll(ctx context.Context, home string, key signing.KeyID, now time.Time, policies ...signing.Policy) error {
	path := filepath.Join(home, filepath.FromSlash(enrollmentName))
	dir, err := durable.OpenPath(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close() // Replace has synced it
	return underLock(ctx, dir, filepath.Base(path), func() error {
		list, err := readEnrollment(home)
		if err != nil {
			return err
		}
		for _, p := range policies {
			e := list.Enrolled[p.Key()]
			if e.KeyID = key; e.At == "" {
				e.At = schema.NewTimestamp(now)
			}
			list.Enrolled[p.Key()] = e
		}
		data, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			return err
		}
		return dir.Replace(filepath.Base(path), append(data, '\n'), 0o600)
	})
}

// A Signed is a policy file that SignPolicy signed.
type Signed struct {
	Path string `json:"path"`
	// Again reports whether it had a signature before.
	Again  bool            `json:"resigned"`
	Policy signing.Policy  `json:"context"`
	KeyIDs []signing.KeyID `json:"signer_kids"`
	// Status is verified: the file was read again.
	Status signing.Status `json:"verify_status"`
}

// SignPolicy signs the policy files of an agent, as they are now, with its keys, or with one of them. Once both
// are signed, they are enrolled: from then on they count only with a good signature.
func SignPolicy(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, key signing.KeyID, now time.Time) (done []Signed, err error) {
	if err := w.CheckAgent(agent); err != nil {
		return nil, err
	}
	err = locked(ctx, w, func() error {
		home, err := w.Home()
		if err != nil {
			return err
		}
		keys, err := signing.NewStore(home).Load(agent, key)
		if err != nil {
			return err
		}
		var ids []signing.KeyID
		for _, k := range keys {
			ids = append(ids, k.ID)
		}
		files := make(map[signing.PolicyKind][]byte)
		for _, kind := range []signing.PolicyKind{signing.ReceiverConfig, signing.AllowedSigners} {
			full, data, err := read(w, policyName(agent, kind))
			if err == nil && data == nil {
				err = fmt.Errorf("%s: %w", full, fs.ErrNotExist)
			}
			if err != nil {
				return err
			}
			p, err := policyOf(w, home, agent, kind)
			if err == nil {
				files[kind], err = signing.SignPolicy(data, p, keys...)
			}
			if err != nil {
				return err
			}
			_, before, _ := signing.Split(data)
			done = append(done, Signed{full, before != "", p, ids, signing.Verified})
		}
		policies := make([]signing.Policy, len(done))
		for i, one := range done {
			name := policyName(agent, one.Policy.Kind)
			info, err := w.Root().Stat(name)
			if err == nil {
				err = durable.ReplaceFile(w.Root(), w.Dir(), name, files[one.Policy.Kind], info.Mode().Perm())
			}
			if err == nil {
				_, _, err = readPolicy(w, agent, one.Policy.Kind)
			}
			if err != nil {
				return err
			}
			policies[i] = one.Policy
		}
		return enroll(ctx, home, ids[0], now, policies...)
	})
	return done, err
}

// signerOf returns the function that signs new pins of an agent, if its pins are signed or once were. It
// returns an error if the agent's keys are missing: then nothing may be written.
func signerOf(w *mailbox.Workspace, agent schema.AgentName) (func([]byte) ([]byte, error), error) {
	home, _ := w.Home()
	p, err := policyOf(w, home, agent, signing.AllowedSigners)
	if err != nil {
		return nil, err
	}
	list, err := readEnrollment(home)
	if err != nil {
		return nil, err
	}
	_, before, err := read(w, PinsName(agent))
	_, auth, _ := signing.Split(before)
	if _, enrolled := list.Enrolled[p.Key()]; err != nil || !enrolled && auth == "" {
		return func(data []byte) ([]byte, error) { return data, nil }, err
	}
	keys, err := signing.NewStore(home).Load(agent, "")
	return func(data []byte) ([]byte, error) { return signing.SignPolicy(data, p, keys...) }, err
}
