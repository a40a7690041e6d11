// Package mailboxtest makes the workspaces and messages of tests.
package mailboxtest

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/internal/testing/memoryfolder"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// Time is when tests make workspaces and messages.
var Time = time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)

// Main runs the tests of a package with their temporary folders in memory, isolated from the user's settings of git.
// TestMain calls it.
func Main(m *testing.M) {
	check.Overlap()
	err := memoryfolder.Use()
	home, homeErr := os.MkdirTemp("", "home")
	if err := errors.Join(err, homeErr); err != nil {
		panic(err)
	}
	if err := gittest.Isolate(home); err != nil {
		panic(err)
	}
	m.Run() // when TestMain returns, the process exits with this status
	if err := os.RemoveAll(home); err != nil {
		panic(err)
	}
}

// New makes a workspace with the agents in a temporary folder, as oacp init does.
func New(t testing.TB, agents ...schema.AgentName) *mailbox.Workspace {
	t.Helper()
	return NewIn(t, t.TempDir(), agents...)
}

// NewIn makes a workspace with the agents in the folder dir.
func NewIn(t testing.TB, dir string, agents ...schema.AgentName) *mailbox.Workspace {
	t.Helper()
	if _, err := project.Init(dir, project.InitOptions{Agents: agents, Now: Time}); err != nil {
		t.Fatalf("making a workspace: %v", err)
	}
	return Open(t, dir)
}

// NewBare makes a workspace that holds only the inboxes and outboxes of the agents.
func NewBare(t testing.TB, agents ...schema.AgentName) *mailbox.Workspace {
	t.Helper()
	dir := t.TempDir()
	folders := []string{"agents"}
	for _, agent := range agents {
		folders = append(folders, schema.BoxPath(agent, mailbox.Inbox), schema.BoxPath(agent, mailbox.Outbox))
	}
	for _, folder := range folders {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Open(t, dir)
}

// Open opens a workspace until the test ends. Its changes do not wait for the disk, because tests
// kill processes, not machines.
func Open(t testing.TB, dir string) *mailbox.Workspace {
	t.Helper()
	return OpenWith(t, dir, mailbox.Options{NoSync: true})
}

// OpenWith opens a workspace with options until the test ends.
func OpenWith(t testing.TB, dir string, options mailbox.Options) *mailbox.Workspace {
	t.Helper()
	if options.Home == nil {
		options.Home = project.Place{}.HomeDir
	}
	w, err := mailbox.Open(dir, &options)
	if err != nil {
		t.Fatalf("opening the workspace: %v", err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("closing the workspace: %v", err)
		}
	})
	return w
}

// Draft returns a valid message from claude, without the fields that sending adds.
func Draft(to ...schema.AgentName) schema.Message {
	return schema.Message{
		From: "claude", To: to, Type: schema.TaskRequest,
		Subject: "Implement rate limiting", Body: schema.TextValue("Token bucket, 100 requests a minute.\n"),
	}
}

// Message returns a message from claude to codex. Its id ends in rand, and it was created that many
// seconds after Time.
func Message(rand string, second int) schema.Message {
	m := Draft("codex")
	m.ID = schema.ID("msg-20260313T1430Z-claude-" + rand)
	m.Priority = schema.P2
	m.CreatedAt = schema.Timestamp(fmt.Sprintf("2026-03-13T14:30:%02dZ", second))
	return m
}

// Send sends a message. The workspace must accept it.
func Send(t testing.TB, w *mailbox.Workspace, m schema.Message) *mailbox.Receipt {
	t.Helper()
	r, err := w.Send(t.Context(), m, nil)
	if err != nil {
		t.Fatalf("sending: %v", err)
	}
	return r
}

// Place encodes a message and puts it into a box under a name, as another tool does.
func Place(t testing.TB, w *mailbox.Workspace, agent schema.AgentName, box mailbox.Box, name string, m schema.Message) {
	t.Helper()
	data, err := schema.Encode(&m)
	if err != nil {
		t.Fatal(err)
	}
	check.WriteFile(t, filepath.Join(w.BoxPath(agent, box), name), string(data))
}

// Files returns the sorted names in a folder of the workspace without placeholders and without the
// archive of an inbox. A folder that does not exist has none.
func Files(t testing.TB, w *mailbox.Workspace, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.Dir(), folder))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if !slices.Contains([]string{".gitkeep", string(mailbox.Archive)}, entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names
}

// WantFiles fails the test unless Files returns these names.
func WantFiles(t testing.TB, w *mailbox.Workspace, folder string, want ...string) {
	t.Helper()
	if got := Files(t, w, folder); !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", folder, got, want)
	}
}

// SignPolicy signs config.yaml and the pins of an agent with its newest key in the home, and enrolls them, as
// the reference implementation does.
func SignPolicy(t testing.TB, w *mailbox.Workspace, home string, agent schema.AgentName) {
	t.Helper()
	keys, err := signing.NewStore(home).Load(agent, "")
	if err != nil {
		t.Fatal(err)
	}
	var secret struct {
		D string `json:"d"`
	}
	err = json.Unmarshal([]byte(check.ReadFile(t, keys[0].Path)), &secret)
	seed, decodeErr := base64.RawURLEncoding.DecodeString(secret.D)
	project, evalErr := filepath.EvalSymlinks(w.Dir())
	if err = errors.Join(err, decodeErr, evalErr); err != nil {
		t.Fatal(err)
	}
	if projects, err := filepath.EvalSymlinks(filepath.Join(home, "projects")); err == nil && projects == filepath.Dir(project) {
		project = filepath.Base(project)
	}
	enrolled := make(map[string]map[string]string)
	for kind, name := range map[string]string{"receiver_config": "config.yaml", "allowed_signers": "trust/allowed_signers.yaml"} {
		path := filepath.Join(w.Dir(), schema.AgentPath(agent, name))
		content, _, _ := signing.Split([]byte(check.ReadFile(t, path)))
		header := fmt.Sprintf(`{"alg":"EdDSA","crit":["oacp"],"kid":%q,"oacp":{"agent":%q,"domain":"urn:oacp:policy:v1","instance":%q,`+
			`"policy":{"kind":%q,"project":%q,"receiver":%q},"scheme":"raw-prefix-v1"},"typ":"oacp-policy+yaml"}`,
			keys[0].ID, keys[0].AgentURN(), keys[0].InstanceURN(), kind, project, agent)
		encode := base64.RawURLEncoding.EncodeToString
		protected := encode([]byte(header))
		signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(protected+"."+encode(content)))
		auth := encode(fmt.Appendf(nil, `{"signatures":[{"protected":%q,"signature":%q}]}`, protected, encode(signature)))
		if err := os.WriteFile(path, fmt.Appendf(content[:len(content):len(content)], "auth: %q\n", auth), 0o640); err != nil {
			t.Fatal(err)
		}
		enrolled[project+"/"+string(agent)+"/"+kind] = map[string]string{"enrolled_at_utc": "2026-03-13T14:30:00Z", "kid": string(keys[0].ID)}
	}
	list, err := json.Marshal(map[string]any{"version": 1, "enrolled": enrolled})
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "keys", "policy_enrollment.json"), list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
