package trust

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// A PolicyError reports that a policy file is ignored, because it should have a good signature of its
// agent and has none, or that it cannot be changed, because it has one.
type PolicyError struct {
	Path string
	// Err does not name the file.
	Err error
}

func (e *PolicyError) Error() string { return fmt.Sprintf("%s is not authorized: %v", e.Path, e.Err) }

func (e *PolicyError) Unwrap() error { return e.Err }

// configName returns the path of an agent's settings below the workspace.
func configName(agent schema.AgentName) string { return schema.AgentPath(agent, "config.yaml") }

// policyOf returns the policy in a file of an agent. If the workspace is not a project of the home, its
// path stands for the name of the project.
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

// readPolicy returns the path and the bytes of a policy file, nil bytes if there is no such file. It
// returns a *PolicyError if the file is signed, or ever was on this machine, and has no good signature.
func readPolicy(w *mailbox.Workspace, agent schema.AgentName, kind signing.PolicyKind) (full string, data []byte, err error) {
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return "", nil, err
	}
	name := PinsName(agent)
	if kind == signing.ReceiverConfig {
		name = configName(agent)
	}
	full, data, err = read(w, name)
	if err != nil {
		return full, nil, err
	}
	if err := checkPolicy(w, agent, kind, data); err != nil {
		return full, nil, &PolicyError{full, err}
	}
	return full, data, nil
}

func checkPolicy(w *mailbox.Workspace, agent schema.AgentName, kind signing.PolicyKind, data []byte) error {
	home, _ := w.Home() // without a home there are no keys and no enrolled policies
	_, auth, malformed := signing.Split(data)
	signed := auth != "" || malformed != nil
	list, err := enrolled(home)
	if err != nil || !signed && len(list) == 0 {
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
	switch _, known := list[p.Key()]; {
	case known && data == nil:
		return errors.New("the file is missing")
	case known:
		return signing.ErrNotSigned
	}
	return nil
}

// ReadConfig returns the bytes of an agent's config.yaml, nil if there is no such file. It returns a
// *FileError or a *PolicyError if the file cannot be used.
func ReadConfig(w *mailbox.Workspace, agent schema.AgentName) ([]byte, error) {
	_, data, err := readPolicy(w, agent, signing.ReceiverConfig)
	return data, err
}

// enrollmentName is the file, below the home, that lists the policies that were signed on this machine. It
// is outside the workspaces, so that nobody who can only write to a workspace can remove the signature
// of a policy unnoticed.
const enrollmentName = "keys/policy_enrollment.json"

// enrolled returns the policies that need a signature, by Policy.Key. If it returns an error, any policy
// may need one, so none counts.
func enrolled(home string) (map[string]json.RawMessage, error) {
	if home == "" {
		return nil, nil
	}
	var list struct {
		Enrolled map[string]json.RawMessage `json:"enrolled"`
	}
	path := filepath.Join(home, filepath.FromSlash(enrollmentName))
	data, err := durable.ReadPath(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err == nil && list.Enrolled == nil {
		err = errors.New("it has no object enrolled")
	}
	if err != nil {
		return nil, fmt.Errorf("the list of signed files, %s, cannot be read: %w", path, err)
	}
	return list.Enrolled, nil
}

// checkWritable returns a *PolicyError if the pins of an agent are signed: only the program that signed them
// can change them.
func checkWritable(w *mailbox.Workspace, agent schema.AgentName) error {
	full, data, err := readPolicy(w, agent, signing.AllowedSigners)
	if err != nil {
		return err
	}
	if _, auth, _ := signing.Split(data); auth != "" {
		return &PolicyError{full, errors.New("it is signed, and a change would break the signature")}
	}
	return nil
}
