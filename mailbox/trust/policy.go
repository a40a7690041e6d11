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
	// Folder is the folder of the workspace, wherever its path leads; see durable.FolderID.
	Folder string `json:"folder,omitempty"`
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

// find returns the entry of a policy of the workspace. Who can write to a workspace can change its id, and its owner can move it
// or put a link in its place, so each of path, folder, id and name is enough.
func (l enrollment) find(w *mailbox.Workspace, p signing.Policy) (e enrolledEntry, known bool) {
	suffix := strings.TrimPrefix(p.Key(), p.Project)
	here, named, folder := realPath(w), namedPath(w.Dir()), durable.FolderID(w.Dir())
	e, known = l.Enrolled[p.Key()]
	for key, other := range l.Enrolled {
		switch {
		case !strings.HasSuffix(key, suffix):
		case other.Path == here, other.Path != "" && other.Path == named, other.Folder != "" && other.Folder == folder:
			return other, true
		case !known && p.Workspace != "" && other.Workspace == p.Workspace:
			e, known = other, true
		}
	}
	return e, known
}

// namedPath returns the path of a workspace as it is named, with no links before its last part.
func namedPath(dir string) string {
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return dir
	}
	return filepath.Join(parent, filepath.Base(dir))
}

// CheckPlace returns an error if the workspace that was found is not the signed one that the place is about, because somebody
// has put a link or another workspace where the search comes first. Found is the workspace. From is the folder in which the
// search began, empty if the workspace was named.
func CheckPlace(home, found, from string) error {
	list, err := readEnrollment(home)
	if err != nil || len(list.Enrolled) == 0 {
		return err
	}
	signed := make(map[string]bool)
	for _, e := range list.Enrolled {
		signed[e.Path] = e.Path != ""
	}
	if found, err = filepath.Abs(found); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(found)
	if err != nil || signed[real] {
		return nil // opening it says why, or its settings need their signature
	}
	if named := namedPath(found); signed[named] {
		return &PlaceError{Signed: named, Found: real}
	}
	dir, err := filepath.EvalSymlinks(from)
	if from == "" || err != nil {
		return nil
	}
	for outer := filepath.Dir(real); outer != filepath.Dir(outer); outer = filepath.Dir(outer) {
		if signed[outer] { // it is in the signed one
			return &PlaceError{Signed: outer, Found: real}
		}
	}
	for ; ; dir = filepath.Dir(dir) {
		own := filepath.Join(dir, ".oacp")
		switch {
		case real == dir, real == own: // a workspace further down
			return nil
		case signed[own]:
			return &PlaceError{Signed: own, Found: real}
		case signed[dir]:
			return &PlaceError{Signed: dir, Found: real}
		case dir == filepath.Dir(dir):
			return nil
		}
	}
}

// A PlaceError reports that a search leads to a workspace without signed settings where one with signed settings was.
type PlaceError struct{ Signed, Found string }

func (e *PlaceError) Error() string {
	return fmt.Sprintf("the workspace here was %s, with signed settings, and now it is %s", e.Signed, e.Found)
}

// Explain returns the code and the hint.
func (e *PlaceError) Explain() (code, hint string) {
	return "another_workspace", "if you did not change that, look at the links and folders there: another program may have; --dir names a workspace, " +
		"and in one that you have moved, oacp trust sign-policy --agent AGENT signs the settings anew"
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

// Signed reports whether settings of some agent of the workspace need a signature, and whether those of the agent do.
func Signed(w *mailbox.Workspace, agent schema.AgentName) (some, its bool, err error) {
	home, err := w.Home()
	if err != nil {
		return true, false, err
	}
	list, err := readEnrollment(home)
	if err != nil || len(list.Enrolled) == 0 {
		return err != nil, false, err
	}
	agents, err := w.Agents()
	for _, name := range agents {
		_, known := list.find(w, policyOf(w, home, name, signing.ReceiverConfig))
		some, its = some || known, its || known && name == agent
	}
	return some || err != nil, its, err
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
		list.Enrolled[p.Key()] = enrolledEntry{schema.NewTimestamp(now), keys[0].ID, p.Workspace, realPath(w), durable.FolderID(w.Dir())}
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
