package trust_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// writeFile writes a file of the workspace. Its time differs from that of any version before.
func writeFile(t *testing.T, w *mailbox.Workspace, name, text string) {
	t.Helper()
	path := filepath.Join(w.Dir(), filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o640)); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, w *mailbox.Workspace, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir(), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const (
	configOfCodex = "agents/codex/config.yaml"
	pinsOfCodex   = "agents/codex/trust/allowed_signers.yaml"
	enforcing     = "signing:\n  verify_mode: enforce\n"
)

// newEnforcingWorkspace returns a workspace in which codex trusts a key of claude and reads only verified
// messages.
func newEnforcingWorkspace(t *testing.T) (w *mailbox.Workspace, home string) {
	t.Helper()
	w, home = newWorkspace(t, "claude", "codex")
	imports(t, w, newKey(t, home, "claude"), "codex")
	newKey(t, home, "codex")
	writeFile(t, w, configOfCodex, enforcing)
	return w, home
}

// newSignedWorkspace returns such a workspace with signed settings and pins.
func newSignedWorkspace(t *testing.T) (w *mailbox.Workspace, home string) {
	t.Helper()
	w, home = newEnforcingWorkspace(t)
	signPolicy(t, w)
	return w, home
}

func signPolicy(t *testing.T, w *mailbox.Workspace) {
	t.Helper()
	if paths, err := trust.SignPolicy(t.Context(), w, "codex", time.Now()); err != nil || len(paths) != 2 {
		t.Fatalf("signed %v, %v", paths, err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestPolicyFailsClosed changes signed files, and what is known about them.
func TestPolicyFailsClosed(t *testing.T) {
	sibling := func(t *testing.T, w *mailbox.Workspace, home string) { // the same agent and files elsewhere
		other := otherWorkspace(t, home)
		enrollment := filepath.Join(home, "keys", "policy_enrollment.json")
		before := must(os.ReadFile(enrollment))
		signPolicy(t, other)
		writeFile(t, w, configOfCodex, readFile(t, other, configOfCodex))
		if err := os.WriteFile(enrollment, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		change         func(t *testing.T, w *mailbox.Workspace, home string)
		mode           trust.Mode
		config, pinsOK bool
	}{
		"nothing": {func(*testing.T, *mailbox.Workspace, string) {}, trust.Enforce, true, true},
		"another mode": {func(t *testing.T, w *mailbox.Workspace, _ string) {
			writeFile(t, w, configOfCodex, strings.Replace(readFile(t, w, configOfCodex), "enforce", "off", 1))
		}, trust.Enforce, false, true},
		"a config without its signature": {func(t *testing.T, w *mailbox.Workspace, _ string) {
			writeFile(t, w, configOfCodex, "signing:\n  verify_mode: off\n")
		}, trust.Enforce, false, true},
		"a config that says nothing": {func(t *testing.T, w *mailbox.Workspace, _ string) { writeFile(t, w, configOfCodex, "") }, trust.Enforce, false, true},
		"no config": {func(t *testing.T, w *mailbox.Workspace, _ string) {
			if err := os.Remove(filepath.Join(w.Dir(), configOfCodex)); err != nil {
				t.Fatal(err)
			}
		}, trust.Enforce, false, true},
		"a signed config of another workspace": {sibling, trust.Enforce, false, true},
		"the pins as a config": {func(t *testing.T, w *mailbox.Workspace, _ string) {
			writeFile(t, w, configOfCodex, readFile(t, w, pinsOfCodex))
		}, trust.Enforce, false, true},
		"pins without their signature": {func(t *testing.T, w *mailbox.Workspace, _ string) {
			content, _, _ := strings.Cut(readFile(t, w, pinsOfCodex), "auth: ")
			writeFile(t, w, pinsOfCodex, content)
		}, trust.Enforce, true, false},
		"no pins": {func(t *testing.T, w *mailbox.Workspace, _ string) {
			if err := os.Remove(filepath.Join(w.Dir(), pinsOfCodex)); err != nil {
				t.Fatal(err)
			}
		}, trust.Enforce, true, false},
		"a list of signed files that is damaged": {func(t *testing.T, _ *mailbox.Workspace, home string) {
			if err := os.WriteFile(filepath.Join(home, "keys", "policy_enrollment.json"), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, trust.Enforce, false, false},
		"no keys": {func(t *testing.T, _ *mailbox.Workspace, home string) {
			if err := os.RemoveAll(filepath.Join(home, "keys")); err != nil {
				t.Fatal(err)
			}
		}, trust.Enforce, false, false},
		"another id": {func(t *testing.T, w *mailbox.Workspace, _ string) { setID(t, w, "other") }, trust.Enforce, true, true},
		"no id": {func(t *testing.T, w *mailbox.Workspace, _ string) {
			writeFile(t, w, schema.MarkerName, "{}")
		}, trust.Enforce, true, true},
		"another id and no signatures": {func(t *testing.T, w *mailbox.Workspace, _ string) {
			setID(t, w, "other")
			writeFile(t, w, configOfCodex, "signing:\n  verify_mode: off\n")
			writeFile(t, w, pinsOfCodex, "version: 1\n")
		}, trust.Enforce, false, false},
		"the settings and the id of another workspace": {func(t *testing.T, w *mailbox.Workspace, home string) {
			sibling(t, w, home)
			setID(t, w, "sibling")
		}, trust.Enforce, false, true},
		"signed by the reference implementation": {func(t *testing.T, w *mailbox.Workspace, home string) {
			mailboxtest.SignPolicy(t, w, home, "codex")
		}, trust.Enforce, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, home := newSignedWorkspace(t)
			test.change(t, w, home)
			mode, configErr := trust.ModeOf(w, "codex")
			pins, pinsErr := trust.Pins(w, "codex")
			isPolicy := func(err error) bool { return err != nil && failure.Of(err).Code == "bad_policy" }
			if mode != test.mode || isPolicy(configErr) == test.config || isPolicy(pinsErr) == test.pinsOK || (len(pins) == 1) != test.pinsOK {
				t.Errorf("the mode is %s (%v), and there are %d pins (%v)", mode, configErr, len(pins), pinsErr)
			}
			// Nobody sends by settings that count for nothing, or changes a file that does.
			_, _, _, sendErr := w.Compose(schema.Message{From: "codex", To: []schema.AgentName{"claude"}, Type: schema.Question, Subject: "S", Body: schema.TextValue("B")}, nil)
			_, importErr := trust.Import(t.Context(), w, newKey(t, t.TempDir(), "claude"), "codex")
			if (sendErr == nil) != test.config || (importErr == nil) != test.pinsOK {
				t.Errorf("sending: %v; importing a key: %v", sendErr, importErr)
			}
		})
	}
}

// otherWorkspace returns another workspace with the same agents and home.
func otherWorkspace(t *testing.T, home string) *mailbox.Workspace {
	t.Helper()
	source, _ := newWorkspace(t, "claude", "codex")
	options := trust.Options(func() (string, error) { return home, nil })
	w, err := mailbox.Open(source.Dir(), &options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	writeFile(t, w, configOfCodex, enforcing)
	writeFile(t, w, pinsOfCodex, "version: 1\n")
	return w
}

func setID(t *testing.T, w *mailbox.Workspace, id string) {
	t.Helper()
	writeFile(t, w, schema.MarkerName, fmt.Sprintf(`{"workspace_id": %q}`, id))
}

// TestEnrollmentFollowsTheWorkspace moves a workspace, and its home, and takes its signatures away. It stays known.
func TestEnrollmentFollowsTheWorkspace(t *testing.T) {
	w, home := newSignedWorkspace(t)
	open := func(dir, home string) *mailbox.Workspace {
		t.Helper()
		options := trust.Options(func() (string, error) { return home, nil })
		return mailboxtest.OpenWith(t, dir, options)
	}
	if err := trust.CheckIdentity(w, "codex"); err != nil {
		t.Error(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(w.Dir(), elsewhere); err != nil {
		t.Fatal(err)
	}
	newHome := filepath.Join(t.TempDir(), "home")
	if err := os.Rename(home, newHome); err != nil {
		t.Fatal(err)
	}
	moved := open(elsewhere, newHome)
	if mode, err := trust.ModeOf(moved, "codex"); mode != trust.Enforce || err != nil {
		t.Errorf("after a move, the mode is %s, %v", mode, err)
	}
	writeFile(t, moved, configOfCodex, "signing:\n  verify_mode: off\n")
	writeFile(t, moved, pinsOfCodex, "version: 1\n")
	if mode, err := trust.ModeOf(moved, "codex"); mode != trust.Enforce || err == nil {
		t.Errorf("without signatures, the mode is %s, %v", mode, err)
	}
	if pins, err := trust.Pins(moved, "codex"); err == nil {
		t.Errorf("without signatures, the pins are %v", pins)
	}
	if err := os.Rename(elsewhere, w.Dir()); err != nil {
		t.Fatal(err)
	}
	back := open(w.Dir(), newHome)
	setID(t, back, "other")
	if mode, err := trust.ModeOf(back, "codex"); mode != trust.Enforce || err == nil {
		t.Errorf("with another id and without signatures, the mode is %s, %v", mode, err)
	}
	if err := trust.CheckIdentity(back, "codex"); err == nil || !strings.Contains(err.Error(), "another workspace_id") {
		t.Errorf("another id is reported as %v", err)
	}
}

// TestAnotherIDBeforeAMove changes or removes the id and the signatures, and then moves the workspace. It stays known.
func TestAnotherIDBeforeAMove(t *testing.T) {
	for _, marker := range []string{`{"workspace_id": "other"}`, "{}", "no JSON"} {
		w, home := newSignedWorkspace(t)
		writeFile(t, w, schema.MarkerName, marker)
		writeFile(t, w, configOfCodex, "signing:\n  verify_mode: off\n")
		writeFile(t, w, pinsOfCodex, "version: 1\n")
		if mode, err := trust.ModeOf(w, "codex"); mode != trust.Enforce || err == nil {
			t.Errorf("with %s, the mode is %s, %v", marker, mode, err)
		}
		elsewhere := filepath.Join(t.TempDir(), "elsewhere")
		if err := os.Rename(w.Dir(), elsewhere); err != nil {
			t.Fatal(err)
		}
		moved := mailboxtest.OpenWith(t, elsewhere, trust.Options(func() (string, error) { return home, nil }))
		if mode, err := trust.ModeOf(moved, "codex"); mode != trust.Enforce || err == nil {
			t.Errorf("with %s and after a move, the mode is %s, %v", marker, mode, err)
		}
		if pins, err := trust.Pins(moved, "codex"); err == nil {
			t.Errorf("with %s and after a move, the pins are %v", marker, pins)
		}
	}
}

// TestWritersSign checks that who changes signed pins signs them again, or changes nothing.
func TestWritersSign(t *testing.T) {
	w, home := newSignedWorkspace(t)
	stub := newKey(t, home, "claude")
	imports(t, w, stub, "codex")
	if _, err := trust.Revoke(t.Context(), w, stub.KeyID, ""); err != nil {
		t.Fatal(err)
	}
	pins, err := trust.Pins(w, "codex")
	if err != nil || len(pins) != 2 || !isRevoked(pins, stub.KeyID) || !strings.Contains(readFile(t, w, pinsOfCodex), "\nauth: ") {
		t.Errorf("the pins are %+v, %v", pins, err)
	}
	keys := must(filepath.Glob(filepath.Join(home, "keys", "*", "codex", "*", "*[^b].json")))
	if len(keys) != 1 || os.Rename(keys[0], keys[0]+".away") != nil {
		t.Fatalf("codex has the keys %v", keys)
	}
	before, catalog := readFile(t, w, pinsOfCodex), readFile(t, w, "trust/catalog.yaml")
	other := newKey(t, home, "claude")
	active := pins[slices.IndexFunc(pins, func(p trust.Entry) bool { return p.Status == trust.Active })].KeyID
	for what, change := range map[string]func() error{
		"import": func() error { return second(trust.Import(t.Context(), w, other, "codex")) },
		"revoke": func() error { return second(trust.Revoke(t.Context(), w, active, "")) },
	} {
		err := change()
		if _, ok := errors.AsType[*signing.NoKeyError](err); !ok ||
			readFile(t, w, pinsOfCodex) != before || readFile(t, w, "trust/catalog.yaml") != catalog {
			t.Errorf("%s without the key of codex changed something, or did not say so: %v", what, err)
		}
	}
}

// TestModes checks that a mode that is not one is an error, and means enforce.
func TestModes(t *testing.T) {
	w, _ := newWorkspace(t, "codex")
	for config, want := range map[string]trust.Mode{
		"":                                    trust.Off,
		"signing:":                            trust.Off,
		"signing: {verify_mode: off}":         trust.Off,
		"signing: {verify_mode: warn}":        trust.Warn,
		"signing: {verify_mode: ' Enforce '}": trust.Enforce,
		"mode: &m enforce\nsigning: {verify_mode: *m}": trust.Enforce,
		// The others are errors.
		"signing: true # verify_mode":                       "",
		"signing: {verify_mode: enforced}":                  "",
		"signing: {verify_mode: strict}":                    "",
		"signing: {verify_mode: on}":                        "",
		"signing: {verify_mode: [off]}":                     "",
		"signing: {verify_mode: off, verify_mode: enforce}": "",
		"signing: {verify_mode: off":                        "",
		"verify_mode: enforce":                              "",
		"verify_mode: off":                                  "",
	} {
		writeFile(t, w, configOfCodex, config)
		got, err := trust.ModeOf(w, "codex")
		if got != cmp.Or(want, trust.Enforce) || (err == nil) != (want != "") {
			t.Errorf("%q: the mode is %q (%v), want %q", config, got, err, want)
		}
		if _, configErr := trust.ReadConfig(w, "codex"); (configErr == nil) != (err == nil) {
			t.Errorf("%q: the mode is %v, the settings for turns %v", config, err, configErr)
		}
	}
	if mode, err := trust.ModeOf(w, "nobody"); mode != trust.Off || err != nil {
		t.Errorf("without a config: %s, %v", mode, err)
	}
}

// TestScreen checks what a workspace gives to those who read it, for each outcome of a verification.
func TestScreen(t *testing.T) {
	w, home := newEnforcingWorkspace(t)
	send := func(sign bool) mailbox.Entry {
		t.Helper()
		receipt, err := w.Send(t.Context(), schema.Message{
			From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: "S", Body: schema.TextValue("B"),
		}, &mailbox.SendOptions{Sign: sign})
		if err != nil {
			t.Fatal(err)
		}
		entries, err := w.Find(t.Context(), string(receipt.Message.ID))
		if err != nil || len(entries) != 2 {
			t.Fatalf("found %+v, %v", entries, err)
		}
		at := 0
		if entries[0].Box != mailbox.Inbox {
			at = 1
		}
		return entries[at]
	}
	if e := send(true); e.Err != nil || e.Message == nil {
		t.Errorf("a verified message is %+v", e)
	}
	status := func(e mailbox.Entry) signing.Status {
		t.Helper()
		held, ok := errors.AsType[*mailbox.HeldError](e.Err)
		if !ok || held.Agent != "codex" || held.Path != e.Path {
			t.Fatalf("%+v is not held for codex: %v", e, e.Err)
		}
		return held.Status
	}
	// The sender's copy says what is held, and nothing else does.
	plain := send(false)
	if got := status(plain); got != signing.Unsigned || plain.Message == nil {
		t.Errorf("an unsigned message is %s", got)
	}
	inbox, err := w.Inbox(t.Context(), "codex")
	if err != nil || len(inbox) != 2 || inbox[1].Message != nil || status(inbox[1]) != signing.Unsigned {
		t.Errorf("the inbox is %+v, %v", inbox, err)
	}
	if f := trust.NewChecker(w).Check(inbox[1]); f.Verdict != signing.VerdictUnverified || f.Status != signing.Unsigned {
		t.Errorf("the finding is %+v", f)
	}
	data, err := mailbox.ReadUnscreened(w, plain)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := w.Decoder(plain.Agent, plain.Box)(plain, data); m != nil || !errors.As(err, new(*mailbox.HeldError)) {
		t.Errorf("decoded %+v, %v", m, err)
	}
	// For an agent that looks, what others have sent counts as well, but not what it has sent itself.
	w.ViewAs("codex")
	outbox, err := w.List(t.Context(), "claude", mailbox.Outbox)
	if err != nil || len(outbox) != 2 || outbox[0].Err != nil || status(outbox[1]) != signing.Unsigned {
		t.Errorf("to codex, the outbox of claude is %+v, %v", outbox, err)
	}
	w.ViewAs("claude")
	if entries, err := w.Find(t.Context(), string(plain.Message.ID)); err != nil || entries[0].Err != nil {
		t.Errorf("to claude, its message is %+v, %v", entries, err)
	}
	// What claude may not know is held for codex all the same, and a new key changes that at once.
	newKey(t, home, "claude")
	keys, err := signing.NewStore(home).List("claude")
	if err != nil || len(keys) != 2 {
		t.Fatalf("claude has %d keys, %v", len(keys), err)
	}
	for _, k := range keys {
		if _, err := trust.Revoke(t.Context(), w, k.ID, "codex"); err == nil {
			continue
		}
		imports(t, w, stubOfKey(t, k), "codex")
		if e := send(true); e.Err != nil {
			t.Errorf("with the new key: %v", e.Err)
		}
	}
	if inbox, err := w.Inbox(t.Context(), "codex"); err != nil || inbox[0].Err != nil || status(inbox[2]) == "" {
		t.Errorf("with the new key, the inbox is %+v, %v", inbox, err)
	}
	if got := status(must(w.Inbox(t.Context(), "codex"))[1]); got != signing.Revoked && got != signing.Unsigned {
		t.Errorf("the message of the revoked key is %s", got)
	}
}

func stubOfKey(t *testing.T, k *signing.Key) signing.PublicStub {
	t.Helper()
	data, err := os.ReadFile(k.StubPath())
	if err != nil {
		t.Fatal(err)
	}
	return must(signing.ParsePublicStub(data))
}

// TestWithoutKeys checks that a program that opens a workspace without keys reads nothing of an agent whose
// settings speak of enforce.
func TestWithoutKeys(t *testing.T) {
	w, _ := newSignedWorkspace(t)
	if _, err := w.Send(t.Context(), schema.Message{
		From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: "S", Body: schema.TextValue("B"),
	}, &mailbox.SendOptions{Sign: true}); err != nil {
		t.Fatal(err)
	}
	for options, held := range map[*mailbox.Options]bool{nil: true, {Screen: mailbox.Unscreened}: false} {
		other, err := mailbox.Open(w.Dir(), options)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		entries, err := other.Inbox(t.Context(), "codex")
		if err != nil || len(entries) != 1 || entries[0].IsHeld() != held {
			t.Errorf("with %+v, the inbox is %+v, %v", options, entries, err)
		}
	}
}

// TestHandled checks that a message that an agent has begun in one workspace is held in others, and that one that it
// has handled is held everywhere, whatever happens to the files of the workspace, until it is reopened.
func TestHandled(t *testing.T) {
	w, home := newEnforcingWorkspace(t)
	other := otherWorkspace(t, home)
	writeFile(t, other, pinsOfCodex, readFile(t, w, pinsOfCodex))
	receipt, err := w.Send(t.Context(), schema.Message{From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question,
		Subject: "S", Body: schema.TextValue("B")}, &mailbox.SendOptions{Sign: true})
	if err != nil {
		t.Fatal(err)
	}
	data := must(os.ReadFile(receipt.Inboxes[0]))
	name := filepath.Base(receipt.Inboxes[0])
	copied := func(w *mailbox.Workspace) mailbox.Entry {
		t.Helper()
		writeFile(t, w, schema.BoxPath("codex", mailbox.Inbox)+"/"+name, string(data))
		e := mailbox.Entry{Agent: "codex", Box: mailbox.Inbox, Name: name}
		e.Message, _, e.Err = w.Read(e)
		return e
	}
	note := func(how mailbox.Handling) {
		t.Helper()
		if _, err := mailbox.Note(w, "codex", data, how); err != nil {
			t.Fatal(err)
		}
	}
	want := func(here, elsewhere bool) {
		t.Helper()
		if a, b := copied(w), copied(other); a.IsHeld() != here || b.IsHeld() != elsewhere {
			t.Errorf("held here: %v (%v), elsewhere: %v (%v)", a.IsHeld(), a.Err, b.IsHeld(), b.Err)
		}
	}
	want(false, false)
	note(mailbox.Begun)
	want(false, true)
	if _, err := mailbox.Note(other, "codex", data, mailbox.Begun); !errors.As(err, new(*mailbox.HeldError)) {
		t.Errorf("it begins twice: %v", err)
	}
	if err := w.Acknowledge(copied(w)); err != nil {
		t.Fatal(err)
	}
	want(true, true)
	note(mailbox.Reopened)
	want(false, false)
	note(mailbox.Handled)
	want(true, true)
	// The content without its signature is another file: who acknowledges it does not handle the message.
	note(mailbox.Reopened)
	content, _, _ := signing.Split(data)
	if _, err := mailbox.Note(w, "codex", content, mailbox.Handled); err != nil {
		t.Fatal(err)
	}
	want(false, false)
}

// TestNoHome checks that settings count for nothing if the user's folder, which says what must be signed, cannot be found.
func TestNoHome(t *testing.T) {
	w, _ := newEnforcingWorkspace(t)
	options := trust.Options(func() (string, error) { return "", errors.New("$HOME is not defined") })
	lost, err := mailbox.Open(w.Dir(), &options)
	if err != nil {
		t.Fatal(err)
	}
	defer lost.Close()
	writeFile(t, lost, "agents/codex/config.yaml", "signing: {verify_mode: off}\n")
	if mode, err := trust.ModeOf(lost, "codex"); err == nil || mode != trust.Enforce {
		t.Errorf("the mode is %s, %v; want enforce, and the error", mode, err)
	}
	if _, err := trust.Pins(lost, "codex"); err == nil {
		t.Error("the pins count")
	}
	if err := trust.CheckIdentity(lost, "codex"); err == nil {
		t.Error("nothing says that the identity is unknown")
	}
}
