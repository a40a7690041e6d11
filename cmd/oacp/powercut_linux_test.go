package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/powercut"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
	"github.com/oacp-go/oacp/validate"
)

// A cutScenario is a row of commands during or after which the power fails.
type cutScenario struct {
	name string
	// before are commands that ran long before: what they did is on the disk. Then commands run. ID is the newest message.
	before, commands []string
	// elsewhere are commands that ran before on another machine, which has the same git mailbox.
	elsewhere []string
	// inOrder says that the last command handles a message only once what it sends is sent.
	inOrder bool
	// again says that the last command, repeated after the recovery, completes what the cut interrupted.
	again bool
	// usesGit says that the workspace has a git repository of its own. It has many files, so fewer of its states are recovered.
	usesGit bool
}

const (
	cutInit = "init --agents claude,codex,gemini"
	cutGit  = "init --git --remote REMOTE --dir . --agents claude,codex"
	cutSend = "send --from claude --to codex --type question --subject Why --body because"
)

var cutScenarios = []cutScenario{
	{name: "send", before: []string{cutInit}, commands: []string{cutSend}},
	{name: "send to three", before: []string{"init --agents claude,codex,gemini,qwen"}, commands: []string{
		"send --from claude --to codex,gemini,qwen --type question --subject Why --body because"}},
	{name: "send, ack", before: []string{cutInit}, commands: []string{cutSend, "ack ID --agent codex"}},
	{name: "reply --ack", before: []string{cutInit, cutSend}, inOrder: true, commands: []string{"reply ID --from codex --body so --ack"}},
	{name: "send, recall", before: []string{cutInit}, commands: []string{cutSend, "recall ID --agent claude"}},
	{name: "ack, restore", before: []string{cutInit, cutSend}, commands: []string{"ack ID --agent codex", "restore ID"}},
	{name: "recall, restore", before: []string{cutInit, cutSend}, commands: []string{"recall ID --agent claude", "restore ID"}},
	{name: "send, next", before: []string{cutInit}, commands: []string{cutSend, "next --agent codex"}},
	{name: "run --once --reply", before: []string{cutInit, cutSend}, inOrder: true, again: true, commands: []string{"run --agent codex --once --reply -- cat"}},
	{name: "send, run --once --reply", before: []string{cutInit}, inOrder: true, commands: []string{
		cutSend, "run --agent codex --once --reply -- cat"}},
	{name: "working", before: []string{"init --agents claude", "add-agent codex --runtime codex", cutSend}, commands: []string{
		"working ID half --agent codex", "working --done --agent codex"}},
	{name: "prune", before: []string{cutInit, cutSend, "ack ID --agent codex"}, again: true, commands: []string{
		"prune --older-than 0s --yes"}},
	{name: "init", again: true, commands: []string{cutInit}},
	{name: "init project", again: true, commands: []string{"init --dir NEW --agents claude"}},
	{name: "add-agent", before: []string{cutInit}, again: true, commands: []string{"add-agent qwen --runtime codex"}},
	{name: "mirror", before: []string{cutInit, cutSend, "bridge send --bridge BRIDGE --from codex --to claude --type task --content Build"},
		again: true, commands: []string{"mirror --bridge BRIDGE"}},
	{name: "sync", before: []string{cutGit, cutSend, "sync"}, elsewhere: []string{
		cutGit, "sync", "ack ID --agent codex", "send --from codex --to claude --type notification --subject News --body none", "sync"},
		again: true, usesGit: true, commands: []string{"sync"}},
	{name: "send, sync", before: []string{cutGit}, commands: []string{cutSend, "sync"}, again: true, usesGit: true},
	{name: "bridge send", commands: []string{
		"bridge send --bridge BRIDGE --from claude --to codex --type task --content Build",
		"bridge send --bridge BRIDGE --from codex --to claude --type result --content Built"}, again: true},
}

// TestPowerCuts lets the power fail at each change of the disk that a command makes, in each state in which the models of
// package powercut may leave the disk, up to a bound. Nothing accepted is lost, doubled or half, nothing refused is visible, the
// journals are readable, and nothing that was handled comes back.
func TestPowerCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("it mostly runs programs")
	}
	for _, scenario := range cutScenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			c := &cutTest{cutScenario: scenario}
			c.record(t)
			for _, model := range []powercut.Model{powercut.Ordered, powercut.Weak} {
				t.Run(model.Name, func(t *testing.T) {
					for i, fault := range c.cutAll(t, model, 3) {
						t.Error(i+1, fault)
					}
				})
			}
		})
	}
}

// TestPowerCutsWithoutSyncs checks that TestPowerCuts finds faults: it lets the power fail in commands that sync nothing.
func TestPowerCutsWithoutSyncs(t *testing.T) {
	if testing.Short() {
		t.Skip("it mostly runs programs")
	}
	for _, scenario := range cutScenarios {
		if scenario.usesGit || scenario.name == "working" { // git has its own syncs, and working says nothing that must last
			continue
		}
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.again = false
			c := &cutTest{cutScenario: scenario}
			c.record(t)
			c.recording = c.recording.WithoutSyncs()
			for _, model := range []powercut.Model{powercut.Ordered, powercut.Weak} {
				if len(c.cutAll(t, model, 1)) == 0 {
					t.Errorf("the %s model finds no fault", model.Name)
				}
			}
		})
	}
}

// cutTest is a scenario at work. Its folder holds the workspace w, the bridge log, and the home of the user.
type cutTest struct {
	cutScenario
	folder    string
	recording *powercut.Recording
	// boxes has where each message is before the commands and after each.
	boxes []map[string]string
	files []map[string]string
}

// bounds returns the bound of the states of each prefix of the operations, and how many states are recovered for each one in
// which the last command runs again, 0 for none. Git does not sync the names of its objects, so the weak model damages its
// repository; sync says so then, and how to make another.
func (c *cutTest) bounds(model powercut.Model) (perCut, againEvery int) {
	switch {
	case c.usesGit && model.Name == powercut.Weak.Name:
		return 3, 0
	case c.usesGit:
		return 2, 16
	case c.again:
		return 24, 8
	}
	return 24, 0
}

func (c *cutTest) command(t *testing.T, base, line string) powercut.Command {
	t.Helper()
	oacp, err := exec.LookPath("oacp")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{oacp}
	for word := range strings.FieldsSeq(line) {
		switch word {
		case "ID":
			word = newestMessage(t, filepath.Join(base, "w"))
		case "REMOTE":
			word = c.folder + ".remote"
		case "NEW":
			word = filepath.Join(base, "new", "workspace")
		case "BRIDGE":
			word = filepath.Join(base, "bridge.jsonl")
		}
		args = append(args, word)
	}
	return powercut.Command{Args: args, Dir: filepath.Join(base, "w"), Env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(base, "home"), "GIT_CEILING_DIRECTORIES=" + base, "GIT_CONFIG_NOSYSTEM=1",
		"GORACE=" + os.Getenv("GORACE"),
	}}
}

// newestMessage returns the id of the message of claude.
func newestMessage(t *testing.T, workspace string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(workspace, "agents/claude/outbox/*.yaml"))
	if err != nil || len(names) != 1 {
		t.Fatalf("the outbox of claude has %q, want one message (%v)", names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^id: "?([^"\n]*)`).FindStringSubmatch(string(data))[1]
}

// record runs the commands.
func (c *cutTest) record(t *testing.T) {
	c.folder = filepath.Join(t.TempDir(), "here")
	if out, err := exec.Command("git", "init", "--quiet", "--bare", c.folder+".remote").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	for _, machine := range []struct {
		folder string
		lines  []string
	}{{c.folder, c.before}, {c.folder + ".elsewhere", c.elsewhere}} {
		if err := errors.Join(os.MkdirAll(filepath.Join(machine.folder, "w"), 0o755), os.Mkdir(filepath.Join(machine.folder, "home"), 0o755)); err != nil {
			t.Fatal(err)
		}
		for _, line := range machine.lines {
			c.run(t, machine.folder, line)
		}
	}
	c.keepRemote(t, "before")
	recorder := powercut.NewRecorder(t, c.folder)
	c.recording = &recorder.Recording
	c.remember(t, c.recording.Before)
	for _, line := range c.commands {
		result := recorder.Run(t, c.command(t, c.folder, line))
		if result.Exit != 0 {
			t.Fatalf("oacp %s: exit status %d: %s", line, result.Exit, result.Output)
		}
		c.remember(t, c.recording.After[len(c.recording.After)-1])
	}
	c.keepRemote(t, "after")
}

// keepRemote keeps what the remote has.
func (c *cutTest) keepRemote(t *testing.T, when string) {
	t.Helper()
	if err := os.CopyFS(c.folder+".remote."+when, os.DirFS(c.folder+".remote")); err != nil {
		t.Fatal(err)
	}
}

// run runs a command that is not recorded.
func (c *cutTest) run(t *testing.T, base, line string) {
	t.Helper()
	made := c.command(t, base, line)
	run := exec.Command(made.Args[0], made.Args[1:]...)
	run.Dir, run.Env = made.Dir, made.Env
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("oacp %s: %v: %s", line, err, out)
	}
}

func (c *cutTest) remember(t *testing.T, disk *powercut.Disk) {
	t.Helper()
	boxes, half := boxesOf(disk.Files())
	if len(half) > 0 {
		t.Fatalf("without a cut, %q are no messages", half)
	}
	c.boxes, c.files = append(c.boxes, boxes), append(c.files, disk.Files())
}

// cutAll recovers and checks the states of a model, and returns what is wrong with the first bad ones.
func (c *cutTest) cutAll(t *testing.T, model powercut.Model, most int) (bad []string) {
	states, left := 0, 0
	parent := t.TempDir()
	perCut, againEvery := c.bounds(model)
	for cut := range c.recording.Cuts(model, perCut, &left) {
		states++
		base := filepath.Join(parent, fmt.Sprint(states))
		if err := cut.Disk.Write(base, time.Now().Add(-2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		err := c.check(t, cut, base)
		if err == nil && againEvery > 0 && states%againEvery == 1 {
			err = c.checkAgain(t, cut, base)
		}
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v\n%s", c.describe(cut), err, c.trail(cut)))
		}
		if err := os.RemoveAll(base); err != nil {
			t.Fatal(err)
		}
		if len(bad) == most {
			return bad
		}
	}
	t.Logf("%s: %d operations, %d states recovered, at least %d left out", model.Name, len(c.recording.Operations), states, left)
	return bad
}

func (c *cutTest) describe(cut powercut.Cut) string {
	return fmt.Sprintf("after operation %d of %d, %d of %d commands ended", cut.Done, len(c.recording.Operations), cut.Ended, len(c.commands))
}

func (c *cutTest) trail(cut powercut.Cut) string {
	var text strings.Builder
	for _, o := range c.recording.Operations[max(0, cut.Done-20):cut.Done] {
		fmt.Fprintf(&text, "\t%s\n", o)
	}
	return text.String()
}

// check recovers the state in a folder and returns what is wrong with it.
func (c *cutTest) check(t *testing.T, cut powercut.Cut, base string) error {
	// Between two commands, the state after the first one is the only right one.
	stages := []int{cut.Ended}
	if cut.Ended < len(c.commands) && (cut.Ended == 0 || cut.Done > c.recording.Ends[cut.Ended-1]) {
		stages = append(stages, cut.Ended+1)
	}
	if err := c.recover(t, base); err != nil {
		return err
	}
	disk, err := powercut.ReadDisk(base)
	if err != nil {
		return err
	}
	found := disk.Files()
	boxes, half := boxesOf(found)
	if len(half) > 0 {
		return fmt.Errorf("%q are visible and no messages", half)
	}
	return errors.Join(c.checkBoxes(boxes, stages), c.checkFiles(found, stages))
}

func (c *cutTest) recover(t *testing.T, base string) error {
	dir := filepath.Join(base, "w")
	if _, err := os.Stat(filepath.Join(dir, "agents")); errors.Is(err, fs.ErrNotExist) {
		return nil // there is no workspace
	}
	w, err := mailbox.Open(dir, &mailbox.Options{NoSync: true})
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.Recover(t.Context()); err != nil {
		return fmt.Errorf("recovering: %w", err)
	}
	if err := project.CheckMarker(w); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	agents, err := w.Agents()
	for _, agent := range agents {
		if _, statErr := os.Stat(filepath.Join(dir, track.TurnsFolder, track.JournalName(agent))); statErr != nil {
			continue
		}
		journal, journalErr := track.OpenJournal(w, agent, time.Now)
		if journalErr == nil {
			fact := track.Fact{Kind: track.Acknowledged, Envelope: track.Envelope{Key: track.Key{ID: "msg-20260313T1430Z-claude-zzzz"}}}
			journalErr = errors.Join(journal.Append(fact, true), journal.Close())
		}
		err = errors.Join(err, journalErr)
	}
	return err
}

// boxesOf returns the boxes that have each message, and the paths of visible files in boxes that are not whole messages.
func boxesOf(files map[string]string) (boxes map[string]string, half []string) {
	boxes = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		rest, ok := strings.CutPrefix(name, "w/agents/")
		if !ok || path.Ext(name) != schema.FileExtension || path.Base(name)[0] == '.' || strings.Count(rest, "/") < 2 {
			continue
		}
		m, err := validate.Read([]byte(files[name]))
		if err != nil {
			half = append(half, name)
			continue
		}
		boxes[string(m.ID)] += path.Dir(rest) + " "
	}
	return boxes, half
}

// checkBoxes returns an error if a message is not where it is at one of the stages. As long as a command moves a message, the
// message may be in both boxes.
func (c *cutTest) checkBoxes(found map[string]string, stages []int) error {
	first, last := c.boxes[stages[0]], c.boxes[stages[len(stages)-1]]
	var err error
	handled, unsent := false, false
	for _, id := range slices.Sorted(maps.Keys(last)) {
		moving := first[id] != "" && last[id] != "" && found[id] == union(first[id], last[id])
		if found[id] != first[id] && found[id] != last[id] && !moving {
			err = errors.Join(err, fmt.Errorf("%s is in %q, want it in %q or %q", id, found[id], first[id], last[id]))
		}
		if first[id] != last[id] && found[id] == last[id] {
			handled = handled || first[id] != ""
		} else if first[id] == "" && last[id] != "" {
			unsent = true
		}
	}
	for id := range found {
		if first[id] == "" && last[id] == "" {
			err = errors.Join(err, fmt.Errorf("%s is in %q, want it nowhere", id, found[id]))
		}
	}
	if c.inOrder && handled && unsent {
		err = errors.Join(err, errors.New("the message is handled, and its answer is not sent"))
	}
	return err
}

// union returns all boxes of two texts of boxesOf.
func union(a, b string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(strings.Fields(a+b)))), " ") + " "
}

// isCompared reports whether checkFiles and checkAgain compare a file: it is neither mail, hidden, nor something that a
// program may forget.
func isCompared(name string) bool {
	if strings.HasPrefix(name, "w/.git/") {
		return false
	}
	isMail := strings.HasPrefix(name, "w/agents/") && strings.Count(name, "/") > 3-strings.Count(name[len(name)-1:], "/") &&
		!strings.HasSuffix(name, "/")
	return !isMail && !strings.Contains(name, "/state/") && !strings.HasPrefix(name, "home/.") && !strings.Contains(name, "/.")
}

// checkFiles returns an error if a file is not as it is at one of the stages, or a dead letter has no reason.
func (c *cutTest) checkFiles(found map[string]string, stages []int) error {
	first, last := c.files[stages[0]], c.files[stages[len(stages)-1]]
	names := maps.Clone(first)
	maps.Copy(names, last)
	var err error
	for _, name := range slices.Sorted(maps.Keys(names)) {
		text, there := found[name]
		before, was := first[name]
		after, will := last[name]
		same := there == was && text == before || there == will && text == after
		switch {
		case strings.HasSuffix(name, mailbox.ReasonSuffix):
			_, isDead := found[strings.TrimSuffix(name, mailbox.ReasonSuffix)]
			same = same || !isDead // the reason comes before the message
		case !isCompared(name):
			continue
		case path.Ext(name) == ".jsonl":
			same = strings.HasPrefix(text, before)
		}
		if !same {
			err = errors.Join(err, fmt.Errorf("%s holds %q (is there: %t), want %q or %q", name, text, there, before, after))
		}
	}
	return err
}

// checkAgain repeats the last command and returns an error if the result is not that of a command without a cut.
func (c *cutTest) checkAgain(t *testing.T, cut powercut.Cut, base string) error {
	if cut.Ended < len(c.commands)-1 {
		return nil
	}
	// The remote is another machine: it has all or nothing of what the commands sent.
	when := "before"
	if cut.Ended == len(c.commands) {
		when = "after"
	}
	config := filepath.Join(base, "w/.git/config")
	if text, err := os.ReadFile(config); err == nil {
		remote := c.folder + ".remote"
		text = bytes.ReplaceAll(text, []byte(remote), []byte(base+".remote"))
		if err := errors.Join(os.CopyFS(base+".remote", os.DirFS(remote+"."+when)), os.WriteFile(config, text, 0o644)); err != nil {
			return err
		}
	}
	disk, err := powercut.ReadDisk(base)
	if err != nil {
		return err
	}
	ids := workspaceIDs(disk.Files())
	line := c.commands[len(c.commands)-1]
	command := c.command(t, base, line)
	run := exec.Command(command.Args[0], command.Args[1:]...)
	run.Dir, run.Env = command.Dir, command.Env
	if err := os.MkdirAll(run.Dir, 0o755); err != nil {
		return err
	}
	if out, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("oacp %s again: %w: %s", line, err, out)
	}
	if disk, err = powercut.ReadDisk(base); err != nil {
		return err
	}
	after := workspaceIDs(disk.Files())
	for name, id := range ids {
		if after[name] != id {
			return fmt.Errorf("oacp %s again: the id of %s becomes %q, want %q", line, name, after[name], id)
		}
	}
	got, want := summary(disk.Files()), summary(c.files[len(c.files)-1])
	if !maps.Equal(got, want) {
		return fmt.Errorf("oacp %s again: there are %q, want %q", line, got, want)
	}
	return nil
}

var (
	digits      = regexp.MustCompile("[0-9]+")
	workspaceID = regexp.MustCompile(`("workspace_id": )"([A-Z2-7]{26})"`)
)

// workspaceIDs returns the random ids that workspaces have, by the paths of their markers.
func workspaceIDs(files map[string]string) map[string]string {
	ids := map[string]string{}
	for name, text := range files {
		if id := workspaceID.FindStringSubmatch(text); id != nil && path.Base(name) == schema.MarkerName {
			ids[name] = id[2]
		}
	}
	return ids
}

// summary returns what two runs of a command have in common: the number of messages in the same boxes, of records
// with the same content, and the files without their times and the random ids of workspaces.
func summary(files map[string]string) map[string]string {
	found := map[string]string{}
	boxes, half := boxesOf(files)
	for _, in := range boxes {
		found["messages in "+in] += "*"
	}
	for _, name := range half {
		found["half "+name] = "*"
	}
	for name, text := range files {
		switch {
		case !isCompared(name):
		case path.Ext(name) == ".jsonl":
			for line := range strings.Lines(text) {
				var record struct{ Content string }
				if json.Unmarshal([]byte(line), &record) == nil {
					found["record "+record.Content] += "*"
				}
			}
		default:
			found[name] = digits.ReplaceAllString(workspaceID.ReplaceAllString(text, `$1"ID"`), "0")
		}
	}
	return found
}
