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

// A PolicyError says that a policy file counts for nothing: its agent signs it, and it has no good
// signature now.
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
func configName(agent schema.AgentName) string { return "agents/" + string(agent) + "/config.yaml" }

func policyName(agent schema.AgentName, kind signing.PolicyKind) string {
	if kind == signing.ReceiverConfig {
		return configName(agent)
	}
	return PinsName(agent)
}

// policyOf returns the policy that a file of an agent is. A workspace that is no project of the home has its path
// for a project.
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
	dir, err := durable.OpenPath(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return list, err
	}
	defer dir.Close() // nothing is written
	data, err := dir.ReadFile(filepath.Base(path), maxFile)
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
	// Again says that it had a signature before.
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
	kinds := []signing.PolicyKind{signing.ReceiverConfig, signing.AllowedSigners}
	err = locked(ctx, w, func() error {
		var missing error
		for _, kind := range kinds {
			if _, data, err := read(w, policyName(agent, kind)); err != nil || data == nil {
				missing = errors.Join(missing, err, fmt.Errorf("%s: %w", policyName(agent, kind), fs.ErrNotExist))
			}
		}
		keys, home, err := policyKeys(w, agent, key)
		if err := errors.Join(missing, err); err != nil {
			return err
		}
		var policies []signing.Policy
		for _, kind := range kinds {
			one, err := signFile(w, home, agent, kind, keys)
			if err != nil {
				return err
			}
			done, policies = append(done, one), append(policies, one.Policy)
		}
		return enroll(ctx, home, keys[0].ID, now, policies...)
	})
	return done, err
}

// policyKeys returns the keys with which an agent signs its policy files, and the folder of keys.
func policyKeys(w *mailbox.Workspace, agent schema.AgentName, key signing.KeyID) (keys []*signing.Key, home string, err error) {
	if home, err = w.Home(); err == nil {
		keys, err = signing.NewStore(home).Load(agent, key)
	}
	return keys, home, err
}

// signFile signs a policy file, and checks that it is signed now.
func signFile(w *mailbox.Workspace, home string, agent schema.AgentName, kind signing.PolicyKind, keys []*signing.Key) (Signed, error) {
	name := policyName(agent, kind)
	full, data, err := read(w, name)
	s := Signed{Path: full, Status: signing.Verified}
	if err == nil {
		s.Policy, err = policyOf(w, home, agent, kind)
	}
	if err != nil {
		return s, err
	}
	for _, k := range keys {
		s.KeyIDs = append(s.KeyIDs, k.ID)
	}
	_, auth, _ := signing.Split(data)
	s.Again = auth != ""
	signed, err := signing.SignPolicy(data, s.Policy, keys...)
	if err != nil {
		return s, err
	}
	info, err := w.Root().Stat(name)
	if err == nil {
		err = durable.ReplaceFile(w.Root(), w.Dir(), name, signed, info.Mode().Perm())
	}
	if err == nil {
		_, _, err = readPolicy(w, agent, kind)
	}
	return s, err
}

// signerOf returns the function that signs what replaces a policy file. It returns the file as it is, unless
// the file before is signed. The error says that the agent's keys are missing: then nothing is to be written.
func signerOf(w *mailbox.Workspace, agent schema.AgentName, kind signing.PolicyKind) (func([]byte) ([]byte, error), error) {
	home, _ := w.Home()
	list, err := readEnrollment(home)
	if err != nil {
		return nil, err
	}
	_, before, err := read(w, policyName(agent, kind))
	if err != nil {
		return nil, err
	}
	p, err := policyOf(w, home, agent, kind)
	if err != nil {
		return nil, err
	}
	_, auth, _ := signing.Split(before)
	if _, enrolled := list.Enrolled[p.Key()]; !enrolled && auth == "" {
		return func(data []byte) ([]byte, error) { return data, nil }, nil
	}
	keys, _, err := policyKeys(w, agent, "")
	if err != nil {
		return nil, fmt.Errorf("%s is signed, so it cannot be changed without a key of %s: %w", policyName(agent, kind), agent, err)
	}
	return func(data []byte) ([]byte, error) { return signing.SignPolicy(data, p, keys...) }, nil
}
