package project_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/internal/testing/gittest"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/conversation"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

func TestInitMakesAWorkspaceOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new/my-project")
	options := project.InitOptions{Agents: []schema.AgentName{"claude", "codex"}, Now: mailboxtest.Time}
	made, err := project.Init(dir, options)
	if err != nil || len(made) == 0 {
		t.Fatalf("Init made %q (%v), want a workspace", made, err)
	}
	w := mailboxtest.Open(t, dir)
	first := check.Contents(t, dir)
	var marker map[string]any
	if err := json.Unmarshal([]byte(first["workspace.json"]), &marker); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]any{
		"project_name": "my-project", "repo_path": nil, "spec_version": "0.5.1",
		"created_at": "2026-03-13T14:30:00.000000+00:00", "updated_at": "2026-03-13T14:30:00.000000+00:00",
	} {
		if marker[field] != want {
			t.Errorf("%s is %v, want %v", field, marker[field], want)
		}
	}
	if agents, err := w.Agents(); err != nil || !slices.Equal(agents, options.Agents) {
		t.Errorf("the agents are %v (%v), want %v", agents, err, options.Agents)
	}
	mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	before := check.Contents(t, dir)

	options.Now, options.Project = mailboxtest.Time.Add(time.Hour), "other"
	if made, err := project.Init(dir, options); err != nil || len(made) != 0 {
		t.Errorf("Init again made %q (%v), want nothing", made, err)
	}
	check.Kept(t, dir, before)
	options.Agents = append(options.Agents, "gemini")
	made, err = project.Init(dir, options)
	if err != nil || len(made) != 3 || !strings.Contains(made[0], "gemini") {
		t.Errorf("Init with one more agent made %q (%v), want its three folders", made, err)
	}
}

// TestGitDoesNotSeeState checks that git ignores the state folder, whether init or another tool
// made the workspace and whatever the enclosing repository ignores.
func TestGitDoesNotSeeState(t *testing.T) {
	byInit, byOthers := t.TempDir(), t.TempDir()
	if _, err := project.Init(byInit, project.InitOptions{Agents: []schema.AgentName{"claude", "codex"}, Now: mailboxtest.Time}); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"state", "agents/claude/inbox", "agents/claude/outbox", "agents/codex/inbox"} {
		if err := os.MkdirAll(filepath.Join(byOthers, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{byInit, byOthers} {
		gittest.Run(t, dir, "init", "--quiet")
		check.WriteFile(t, filepath.Join(dir, ".gitignore"), "node_modules\n")
		w := mailboxtest.Open(t, dir)
		mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
		check.WriteFile(t, filepath.Join(dir, "state/outgoing", "left"), "behind")
		status := gittest.Run(t, dir, "status", "--porcelain", "--untracked-files=all")
		if strings.Contains(status, "state/") || !strings.Contains(status, "agents/codex/inbox/") {
			t.Errorf("git sees\n%swant the messages and nothing in state", status)
		}
	}
}

func TestInitRefusesBadNames(t *testing.T) {
	for _, agent := range []schema.AgentName{"", "..", "a/b", "-x", schema.AgentName(strings.Repeat("a", 65))} {
		dir := filepath.Join(t.TempDir(), "new")
		if made, err := project.Init(dir, project.InitOptions{Agents: []schema.AgentName{"ok", agent}}); err == nil {
			t.Errorf("Init with agent %q made %q, want an error", agent, made)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Init with agent %q left a folder behind: %v", agent, err)
		}
	}
}

// referenceWorkspace makes what the reference implementation's init and add-agent make.
func referenceWorkspace(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "projects/my-project")
	files := map[string]string{
		"workspace.json": `{
  "project_name": "my-project",
  "repo_path": null,
  "created_at": "2026-01-02T03:04:05.678901+00:00",
  "updated_at": "2026-01-02T03:04:05.678901+00:00",
  "spec_version": "0.4.0",
  "unknown": {"kept": true}
}`,
		"memory/project_facts.md": "# Facts\n", "memory/open_threads.md": "", "packets/review/.gitkeep": "",
		"agents/claude/agent_card.yaml": "version: \"0.2.0\"\nname: claude\nruntime: claude\nskills: []\nrouting: {}\n",
		"agents/claude/status.yaml":     "runtime: claude\nstatus: available\n",
	}
	for _, agent := range []string{"claude", "codex"} {
		for _, folder := range []string{"inbox", "outbox", "dead_letter", "audit/autonomy_decisions"} {
			files["agents/"+agent+"/"+folder+"/.gitkeep"] = ""
		}
		files["agents/"+agent+"/config.yaml"] = "autonomy:\n  default_mode: always_pause\n"
	}
	for _, folder := range []string{"state", "logs", "memory/archive"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range files {
		check.WriteFile(t, filepath.Join(dir, name), data)
	}
	return dir
}

// TestReferenceWorkspaceWorksUnchanged sends, lists, answers and buries in a workspace that another
// tool made, and changes none of its files.
func TestReferenceWorkspaceWorksUnchanged(t *testing.T) {
	dir := referenceWorkspace(t)
	before := check.Contents(t, dir)
	w := mailboxtest.Open(t, dir)
	r := mailboxtest.Send(t, w, mailboxtest.Draft("codex"))
	entries, err := w.Inbox(t.Context(), "codex")
	if err != nil || len(entries) != 1 {
		t.Fatalf("the inbox lists %v (%v), want the message", entries, err)
	}
	answer := conversation.Reply(entries[0].Message, "codex", schema.Notification)
	answer.Body = schema.TextValue("Done.")
	mailboxtest.Send(t, w, answer)
	if _, err := w.DeadLetter(entries[0], mailbox.DeadLetterReason{Reason: "because"}); err != nil {
		t.Error(err)
	}
	if agent, err := project.InferAgent(w, environment(map[string]string{"CLAUDECODE": "1"})); agent != "claude" || err != nil {
		t.Errorf("the sender is %q (%v), want claude by its card", agent, err)
	}
	if _, err := project.Init(dir, project.InitOptions{Agents: []schema.AgentName{"claude", "codex"}, Now: mailboxtest.Time}); err != nil {
		t.Error(err)
	}
	if _, err := project.AddAgent(w, "claude", project.AgentOptions{Runtime: "claude", Now: mailboxtest.Time}); err != nil {
		t.Error(err)
	}
	check.Kept(t, dir, before)
	if thread, err := conversation.Thread(t.Context(), w, string(r.Message.ID)); err != nil || len(thread) != 2 {
		t.Errorf("the thread has %d messages (%v), want two", len(thread), err)
	}
}

func TestAddAgentWritesWhoItIs(t *testing.T) {
	w := mailboxtest.New(t)
	made, err := project.AddAgent(w, "reviewer", project.AgentOptions{Runtime: "codex", Now: mailboxtest.Time})
	if err != nil || len(made) != 5 {
		t.Fatalf("AddAgent made %q (%v), want three folders and two files", made, err)
	}
	var card struct {
		Name, Runtime string
		Protocol      struct {
			InboxPath string   `yaml:"inbox_path"`
			Types     []string `yaml:"supported_message_types"`
		}
	}
	var status struct {
		Runtime, Status string
		UpdatedAt       string `yaml:"updated_at"`
		Capabilities    []string
	}
	for name, into := range map[string]any{"agent_card.yaml": &card, "status.yaml": &status} {
		if err := yaml.Unmarshal([]byte(check.ReadFile(t, filepath.Join(w.Dir(), "agents/reviewer", name))), into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if card.Name != "reviewer" || card.Runtime != "codex" || card.Protocol.InboxPath != "agents/reviewer/inbox/" || len(card.Protocol.Types) != 12 {
		t.Errorf("the card says %+v", card)
	}
	if status.Runtime != "codex" || status.Status != "available" || status.UpdatedAt != "2026-03-13T14:30:00Z" || status.Capabilities == nil {
		t.Errorf("the status says %+v", status)
	}
	before := check.Contents(t, w.Dir())
	if made, err := project.AddAgent(w, "reviewer", project.AgentOptions{Runtime: "claude", Now: mailboxtest.Time.Add(time.Hour)}); err != nil || len(made) != 0 {
		t.Errorf("AddAgent again made %q (%v), want nothing", made, err)
	}
	check.Kept(t, w.Dir(), before)
	_, err = project.AddAgent(w, "other", project.AgentOptions{Runtime: "cluade", Now: mailboxtest.Time})
	check.Error(t, err, "cluade", "claude")
	if w.Knows("other") {
		t.Error("the refused agent has a mailbox")
	}
}

func TestPostmasterGetsNoMailbox(t *testing.T) {
	if _, err := project.Init(t.TempDir(), project.InitOptions{Agents: []schema.AgentName{"claude", mailbox.Postmaster}}); !errors.Is(err, mailbox.ErrPostmaster) {
		t.Errorf("Init = %v, want ErrPostmaster", err)
	}
	if _, err := project.AddAgent(mailboxtest.New(t), mailbox.Postmaster, project.AgentOptions{Now: mailboxtest.Time}); !errors.Is(err, mailbox.ErrPostmaster) {
		t.Errorf("AddAgent = %v, want ErrPostmaster", err)
	}
}

func TestAddAgentCompletesAMailbox(t *testing.T) {
	w := mailboxtest.New(t, "claude")
	if err := os.RemoveAll(w.BoxPath("claude", mailbox.Outbox)); err != nil {
		t.Fatal(err)
	}
	made, err := project.AddAgent(w, "claude", project.AgentOptions{Now: mailboxtest.Time})
	if want := []string{w.BoxPath("claude", mailbox.Outbox)}; err != nil || !slices.Equal(made, want) {
		t.Errorf("AddAgent made %q (%v), want %q", made, err, want)
	}
	check.WriteFile(t, filepath.Join(w.Dir(), "agents/file"), "no folder")
	if made, err := project.AddAgent(w, "file", project.AgentOptions{Now: mailboxtest.Time}); err == nil {
		t.Errorf("AddAgent where a file is made %q, want an error", made)
	}
}
