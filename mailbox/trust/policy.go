package trust

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// configName returns the path of an agent's settings below the workspace.
func configName(agent schema.AgentName) string { return schema.AgentPath(agent, "config.yaml") }

func policyName(agent schema.AgentName, kind signing.PolicyKind) string {
	if kind == signing.ReceiverConfig {
		return configName(agent)
	}
	return PinsName(agent)
}

// realPath returns the path of a workspace without links.
func realPath(w *mailbox.Workspace) string {
	if path, err := filepath.EvalSymlinks(w.Dir()); err == nil {
		return path
	}
	return w.Dir()
}

// workspaceID returns the id in workspace.json, empty if there is none.
func workspaceID(w *mailbox.Workspace) string {
	var marker struct {
		ID string `json:"workspace_id"`
	}
	if _, data, err := read(w, schema.MarkerName); err != nil || json.Unmarshal(data, &marker) != nil || len(marker.ID) > 100 {
		return ""
	}
	return marker.ID
}

// giveID adds an id to workspace.json, unless it has one, and returns it.
func giveID(w *mailbox.Workspace, id string) (string, error) {
	if there := workspaceID(w); there != "" {
		return there, nil
	}
	full, data, err := read(w, schema.MarkerName)
	if err != nil {
		return "", err
	}
	if data == nil {
		data = []byte("{\n}\n")
	}
	comma := ","
	if bytes.Equal(bytes.Join(bytes.Fields(data), nil), []byte("{}")) {
		comma = ""
	}
	data = bytes.Replace(data, []byte("{"), fmt.Appendf(nil, "{\n  \"workspace_id\": %q%s", id, comma), 1)
	if !json.Valid(data) {
		return "", fmt.Errorf("%s is not a JSON object", full)
	}
	return id, durable.ReplaceFile(w.Root(), w.Dir(), schema.MarkerName, data, 0o644)
}

// policyOf returns the policy in a file of an agent. If the workspace is not a project of the home, its
// path stands for the name of the project.
func policyOf(w *mailbox.Workspace, home string, agent schema.AgentName, kind signing.PolicyKind) signing.Policy {
	p := signing.Policy{Kind: kind, Receiver: agent, Project: realPath(w), Workspace: workspaceID(w)}
	projects, err := filepath.Abs(filepath.Join(home, "projects"))
	if err == nil {
		projects, err = filepath.EvalSymlinks(projects)
	}
	if err == nil && projects == filepath.Dir(p.Project) {
		p.Project = filepath.Base(p.Project)
	}
	return p
}

// readPolicy returns the path and the bytes of a policy file, nil bytes if there is no such file. It
// returns an error if the file is signed, or ever was on this machine, and has no good signature.
func readPolicy(w *mailbox.Workspace, agent schema.AgentName, kind signing.PolicyKind) (full string, data []byte, err error) {
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return "", nil, err
	}
	full, data, err = read(w, policyName(agent, kind))
	if err != nil {
		return full, nil, err
	}
	if err := checkPolicy(w, agent, kind, data); err != nil {
		return full, nil, failure.Wrap("bad_policy", fmt.Errorf("%s is not authorized: %w", full, err),
			"restore the file; if the change was intended, oacp trust sign-policy --agent AGENT signs it; "+signing.OtherHome)
	}
	return full, data, nil
}

func checkPolicy(w *mailbox.Workspace, agent schema.AgentName, kind signing.PolicyKind, data []byte) error {
	home, err := w.Home()
	if err != nil { // what must be signed is not known
		return err
	}
	_, auth, malformed := signing.Split(data)
	signed := auth != "" || malformed != nil
	list, err := readEnrollment(home)
	if err != nil || !signed && len(list.Enrolled) == 0 {
		return err
	}
	p := policyOf(w, home, agent, kind)
	there, known := list.find(w, p)
	if err := noteID(w, home, there, p); err != nil {
		return err
	}
	switch {
	case signed:
		p.Workspace = cmp.Or(there.Workspace, p.Workspace)
		var keys []signing.PublicStub
		if home != "" {
			keys, err = signing.NewStore(home).Stubs(agent)
		}
		return cmp.Or(err, signing.VerifyPolicy(data, p, keys))
	case known && data == nil:
		return errors.New("the file is missing")
	case known:
		return signing.ErrNotSigned
	}
	return nil
}

// ReadConfig returns the bytes of an agent's config.yaml, nil if there is no such file. It returns a
// *FileError, or another error, if the file cannot be used.
func ReadConfig(w *mailbox.Workspace, agent schema.AgentName) ([]byte, error) {
	_, data, err := readPolicy(w, agent, signing.ReceiverConfig)
	return data, cmp.Or(err, CheckSettings(w, agent))
}

// enrollmentName is the file, below the home, that lists the policies that were signed on this machine. It
// is outside the workspaces, so that nobody who can only write to a workspace can remove the signature
// of a policy unnoticed.
const enrollmentName = "keys/policy_enrollment.json"

// An enrollment lists the policies that need a signature, by Policy.Key.
type enrollment struct {
	Version  int                      `json:"version"`
	Enrolled map[string]enrolledEntry `json:"enrolled"`
}

type enrolledEntry struct {
	At    schema.Timestamp `json:"enrolled_at_utc"`
	KeyID signing.KeyID    `json:"kid"`
	// Workspace and Path are the id and the path of the workspace, which the reference implementation does not know.
	Workspace string `json:"workspace_id,omitempty"`
	Path      string `json:"path,omitempty"`
	// Seen is the other id that the workspace had at its path when it was last looked at, maybe none: see noteID.
	Seen *string `json:"seen_workspace_id,omitempty"`
}

// readEnrollment reads the list of a home. If it returns an error, any policy may need a signature, so none counts.
func readEnrollment(home string) (list enrollment, err error) {
	path := filepath.Join(home, filepath.FromSlash(enrollmentName))
	data, err := durable.ReadPath(path, maxFile)
	if home == "" || errors.Is(err, fs.ErrNotExist) {
		return enrollment{1, make(map[string]enrolledEntry)}, nil
	}
	if err == nil {
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

// find returns the entry of a policy of the workspace. Who can write to a workspace can change its id, and its owner
// can move it, so each of path, id and name is enough.
func (l enrollment) find(w *mailbox.Workspace, p signing.Policy) (e enrolledEntry, known bool) {
	suffix := strings.TrimPrefix(p.Key(), p.Project)
	here := realPath(w)
	e, known = l.Enrolled[p.Key()]
	for key, other := range l.Enrolled {
		switch {
		case !strings.HasSuffix(key, suffix):
		case other.Path == here:
			return other, true
		case !known && (p.Workspace != "" && other.Workspace == p.Workspace || other.seen(p.Workspace)):
			e, known = other, true
		}
	}
	return e, known
}

// seen reports whether the workspace was last seen with this id. Many workspaces have none, so that counts only if the
// workspace has left its path.
func (e enrolledEntry) seen(id string) bool {
	if e.Seen == nil || *e.Seen != id {
		return false
	}
	_, err := os.Stat(e.Path)
	return id != "" || errors.Is(err, fs.ErrNotExist)
}

// noteID keeps the id of a workspace in the entries of its path, if it is not that of the entry. So who changes the id
// does not make a workspace unknown that its owner moves later.
func noteID(w *mailbox.Workspace, home string, e enrolledEntry, p signing.Policy) error {
	here := realPath(w)
	if e.Path != here || e.Workspace == "" || e.Workspace == p.Workspace || e.Seen != nil && *e.Seen == p.Workspace {
		return nil
	}
	return changeEnrollment(context.Background(), home, func(list enrollment) error {
		for key, e := range list.Enrolled {
			if e.Path == here {
				e.Seen = &p.Workspace
				list.Enrolled[key] = e
			}
		}
		return nil
	})
}

// changeEnrollment changes the list of a home under its lock.
func changeEnrollment(ctx context.Context, home string, change func(enrollment) error) error {
	file := filepath.Join(home, filepath.FromSlash(enrollmentName))
	dir, err := durable.OpenPath(filepath.Dir(file))
	if err != nil {
		return err
	}
	err = dir.Locked(ctx, filepath.Base(file)+".lock", func() error {
		list, err := readEnrollment(home)
		if err == nil {
			err = change(list)
		}
		if err != nil {
			return err
		}
		data, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			return err
		}
		return dir.Replace(filepath.Base(file), append(data, '\n'), 0o600)
	})
	return errors.Join(err, dir.Close())
}

// CheckIdentity returns an error if the id of the workspace is not the one that it had when settings of the agent were
// signed. They count all the same.
func CheckIdentity(w *mailbox.Workspace, agent schema.AgentName) error {
	home, err := w.Home()
	if err != nil {
		return err
	}
	list, err := readEnrollment(home)
	if err != nil {
		return err
	}
	p := policyOf(w, home, agent, signing.ReceiverConfig)
	if there, known := list.find(w, p); known && there.Workspace != "" && there.Workspace != p.Workspace {
		return fmt.Errorf("%s has another workspace_id than when the settings of %s were signed: %q, not %q",
			filepath.Join(w.Dir(), schema.MarkerName), agent, p.Workspace, there.Workspace)
	}
	return nil
}

// SignPolicy signs the settings and the pins of an agent, as they are now, with its keys. From then on, they count on
// this machine only with a good signature. It returns their paths.
func SignPolicy(ctx context.Context, w *mailbox.Workspace, agent schema.AgentName, now time.Time) (paths []string, err error) {
	if err := w.CheckAgent(agent); err != nil {
		return nil, err
	}
	home, err := w.Home()
	if err != nil {
		return nil, err
	}
	keys, err := signing.NewStore(home).Load(agent, "")
	if err != nil {
		return nil, err
	}
	err = locked(ctx, w, func() error {
		return changeEnrollment(ctx, home, func(list enrollment) (err error) {
			paths, err = signPolicies(w, list, home, agent, keys, now)
			return err
		})
	})
	return paths, err
}

// signPolicies signs the policy files of an agent and enrolls them, and returns their paths.
func signPolicies(w *mailbox.Workspace, list enrollment, home string, agent schema.AgentName, keys []*signing.Key, now time.Time) (paths []string, err error) {
	there, _ := list.find(w, policyOf(w, home, agent, signing.ReceiverConfig))
	if _, err := giveID(w, cmp.Or(there.Workspace, rand.Text())); err != nil {
		return nil, err
	}
	for _, kind := range []signing.PolicyKind{signing.ReceiverConfig, signing.AllowedSigners} {
		name, p := policyName(agent, kind), policyOf(w, home, agent, kind)
		full, data, err := read(w, name)
		if err == nil && data == nil {
			err = fmt.Errorf("%s: %w", full, fs.ErrNotExist)
		}
		if err == nil {
			data, err = signing.SignPolicy(data, p, keys...)
		}
		if err == nil {
			err = durable.ReplaceFile(w.Root(), w.Dir(), name, data, 0o644)
		}
		if err != nil {
			return paths, err
		}
		list.Enrolled[p.Key()] = enrolledEntry{schema.NewTimestamp(now), keys[0].ID, p.Workspace, realPath(w), nil}
		paths = append(paths, full)
	}
	return paths, nil
}

// signAnew returns the new content of an agent's policy file with a signature, if the file has one or needs one.
func signAnew(w *mailbox.Workspace, agent schema.AgentName, kind signing.PolicyKind, content []byte) ([]byte, error) {
	_, before, err := readPolicy(w, agent, kind)
	if err != nil {
		return nil, err
	}
	if _, auth, _ := signing.Split(before); auth == "" {
		return content, nil
	}
	home, err := w.Home()
	if err != nil {
		return nil, err
	}
	keys, err := signing.NewStore(home).Load(agent, "")
	if err != nil {
		return nil, err
	}
	return signing.SignPolicy(content, policyOf(w, home, agent, kind), keys...)
}
