package trust_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/testing/mailboxtest"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// newWorkspace returns a workspace whose agents can sign, and the folder of their keys.
func newWorkspace(t *testing.T, agents ...schema.AgentName) (w *mailbox.Workspace, home string) {
	t.Helper()
	home = t.TempDir()
	options := trust.Options(func() (string, error) { return home, nil })
	options.NoSync = true
	return mailboxtest.OpenWith(t, mailboxtest.New(t, agents...).Dir(), options), home
}

// newKey makes a key and returns its public half.
func newKey(t *testing.T, home string, agent schema.AgentName) signing.PublicStub {
	t.Helper()
	stored, err := signing.NewStore(home).Generate(agent, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(stored.StubPath())
	if err != nil {
		t.Fatal(err)
	}
	stub, err := signing.ParsePublicStub(data)
	if err != nil {
		t.Fatal(err)
	}
	return stub
}

func imports(t *testing.T, w *mailbox.Workspace, stub signing.PublicStub, receiver schema.AgentName) trust.Imported {
	t.Helper()
	done, err := trust.Import(t.Context(), w, stub, receiver)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestImport(t *testing.T) {
	w, home := newWorkspace(t, "claude", "codex")
	stub := newKey(t, home, "claude")
	if done := imports(t, w, stub, ""); done.Catalog != trust.Added || done.Pins != trust.Skipped {
		t.Errorf("into the catalog: %+v", done)
	}
	if pins, err := trust.Pins(w, "codex"); len(pins) > 0 || err != nil {
		t.Errorf("the catalog granted %v, %v", pins, err)
	}
	if done := imports(t, w, stub, "codex"); done.Catalog != trust.Unchanged || done.Pins != trust.Added {
		t.Errorf("into the pins: %+v", done)
	}
	if done := imports(t, w, stub, "codex"); done.Catalog != trust.Unchanged || done.Pins != trust.Unchanged {
		t.Errorf("again: %+v", done)
	}
	pins, err := trust.Pins(w, "codex")
	if err != nil || len(pins) != 1 || pins[0].KeyID != stub.KeyID || pins[0].Status != trust.Active || string(pins[0].Domain) != stub.Domain() {
		t.Errorf("the pins are %+v, %v", pins, err)
	}
	listed, err := trust.Catalog(w)
	if err != nil || len(listed) != 1 || string(listed[0].CreatedAt) != string(stub.CreatedAt) {
		t.Errorf("the catalog is %+v, %v", listed, err)
	}
	for _, receiver := range []schema.AgentName{"nobody", "../claude"} {
		if _, err := trust.Import(t.Context(), w, stub, receiver); err == nil {
			t.Errorf("%s can trust keys", receiver)
		}
	}

	// The same key on another machine is another identity.
	other := stub
	other.Instance = "urn:uuid:00000000-0000-4000-8000-000000000000"
	_, err = trust.Import(t.Context(), w, other, "codex")
	if failure.Of(err).Code != "trust_conflict" || strings.Contains(err.Error(), "revoked") {
		t.Errorf("another machine: %v", err)
	}
}

func TestRevoke(t *testing.T) {
	w, home := newWorkspace(t, "claude", "codex", "gemini")
	stub, other := newKey(t, home, "claude"), newKey(t, home, "claude")
	for _, receiver := range []schema.AgentName{"codex", "gemini"} {
		imports(t, w, stub, receiver)
	}
	imports(t, w, other, "codex")
	_, err := trust.Revoke(t.Context(), w, other.KeyID, "gemini")
	if failure.Of(err).Code != "not_pinned" {
		t.Errorf("revoking what is not pinned: %v", err)
	}
	done, err := trust.Revoke(t.Context(), w, stub.KeyID, "codex")
	if err != nil || done.Receivers["codex"] != trust.Revoked || len(done.Receivers) != 1 {
		t.Errorf("got %+v, %v", done, err)
	}
	done, err = trust.Revoke(t.Context(), w, stub.KeyID, "")
	if err != nil || done.Receivers["codex"] != trust.Unchanged || done.Receivers["gemini"] != trust.Revoked || len(done.Revoked) != 1 {
		t.Errorf("got %+v, %v", done, err)
	}
	_, err = trust.Import(t.Context(), w, stub, "codex")
	if failure.Of(err).Code != "trust_conflict" || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("importing it again: %v", err)
	}
	if pins := must(trust.Pins(w, "codex")); !isRevoked(pins, stub.KeyID) || isRevoked(pins, other.KeyID) {
		t.Errorf("the pins are %+v", pins)
	}

	// A file that cannot be used prevents no other change, and is reported.
	imports(t, w, other, "gemini")
	if err := os.WriteFile(filepath.Join(w.Dir(), trust.PinsName("gemini")), []byte("version: 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	done, err = trust.Revoke(t.Context(), w, other.KeyID, "")
	if _, ok := errors.AsType[*trust.FileError](err); !ok || len(done.Failed) != 1 || done.Failed["gemini"] == "" {
		t.Errorf("got %+v, %v, want the pins of gemini to fail", done, err)
	}
	if !isRevoked(must(trust.Pins(w, "codex")), other.KeyID) {
		t.Error("a broken file of gemini kept the key valid for codex")
	}
}

func isRevoked(pins []trust.Entry, id signing.KeyID) bool {
	return slices.ContainsFunc(pins, func(p trust.Entry) bool { return p.KeyID == id && p.Status == trust.Revoked })
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestImportsAtTheSameTime checks that none of them gets lost.
func TestImportsAtTheSameTime(t *testing.T) {
	w, home := newWorkspace(t, "claude", "codex")
	const n = 8
	var stubs []signing.PublicStub
	for range n {
		stubs = append(stubs, newKey(t, home, "claude"))
	}
	var group sync.WaitGroup
	for _, stub := range stubs {
		group.Go(func() {
			if _, err := trust.Import(context.Background(), w, stub, "codex"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if pins, listed := must(trust.Pins(w, "codex")), must(trust.Catalog(w)); len(pins) != n || len(listed) != n {
		t.Errorf("%d pins and %d keys in the catalog, want %d", len(pins), len(listed), n)
	}
}

// pinFile is a good file of pins, for tests to break.
const pinFile = `# written by hand
version: 1
signers:
- {agent: ada, kid: BVUs4Do-_4da3XUlteJz7dV_YdOAtK3sQp185l2j-MY, domain: ~, status: Active,
   jwk: {kty: OKP, crv: Ed25519, x: XXX}}
`

func TestPinFiles(t *testing.T) {
	stub := newKey(t, t.TempDir(), "ada")
	good := strings.NewReplacer("BVUs4Do-_4da3XUlteJz7dV_YdOAtK3sQp185l2j-MY", string(stub.KeyID), "XXX", stub.JWK.X).Replace(pinFile)
	keyless := strings.Replace(strings.Replace(good, "Active", "revoked", 1), "{kty: OKP, crv: Ed25519, x: "+stub.JWK.X+"}", "~", 1)
	for name, text := range map[string]string{
		"good":                   good,
		"version as text":        strings.Replace(good, "1", "'1'", 1),
		"without status":         strings.Replace(good, "status: Active,", "", 1),
		"revoked without a key":  keyless,
		"something new":          strings.Replace(good, "agent:", "comment: [x], agent:", 1),
		"an instance":            strings.Replace(good, "domain: ~", "instance: here", 1),
		"in JSON":                `{"version": 1, "signers": null}`,
		"without signers":        "version: 1\n",
		"with a date as created": strings.Replace(good, "agent:", "created_at_utc: 2026-11-22T05:00:00Z, agent:", 1),
	} {
		if _, err := trust.ParsePins("pins", []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := newKey(t, t.TempDir(), "ada")
	for name, text := range map[string]string{
		"empty":                  "",
		"no mapping":             "- a",
		"broken":                 "{",
		"another version":        strings.Replace(good, "1", "2", 1),
		"no version":             strings.Replace(good, "version", "vers", 1),
		"no list":                "version: 1\nsigners: a\n",
		"no entry":               "version: 1\nsigners: [a]\n",
		"no agent":               strings.Replace(good, "agent: ada,", "", 1),
		"an invalid agent":       strings.Replace(good, "agent: ada", "agent: ../ada", 1),
		"an agent that is 42":    strings.Replace(good, "agent: ada", "agent: 42", 1),
		"no kid":                 strings.Replace(good, "kid", "key", 1),
		"another kid":            strings.Replace(good, string(stub.KeyID), string(other.KeyID), 1),
		"another key":            strings.Replace(good, stub.JWK.X, other.JWK.X, 1),
		"a private key":          strings.Replace(good, "kty:", "d: AAAA, kty:", 1),
		"another kind of key":    strings.Replace(good, "Ed25519", "X25519", 1),
		"no key":                 strings.Replace(keyless, "revoked", "active", 1),
		"another key, revoked":   strings.Replace(strings.Replace(good, "Active", "revoked", 1), stub.JWK.X, other.JWK.X, 1),
		"another status":         strings.Replace(good, "Active", "trusted", 1),
		"a domain that is empty": strings.Replace(good, "~", "' '", 1),
		"a domain that is 42":    strings.Replace(good, "~", "42", 1),
		"twice the same":         good + good[strings.Index(good, "- "):],
		"many aliases":           "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nsigners: [*c,*c,*c,*c]\nversion: 1\n",
	} {
		pins, err := trust.ParsePins("the/pins", []byte(text))
		if bad, ok := errors.AsType[*trust.FileError](err); !ok || !strings.HasPrefix(bad.Error(), "the/pins: ") || len(pins) > 0 {
			t.Errorf("%s: got %v, %v, want a *FileError", name, pins, err)
		}
	}
}

func FuzzPins(f *testing.F) {
	f.Add([]byte(pinFile))
	f.Add([]byte(`{"version": 1, "signers": [{"agent": "a", "kid": "", "jwk": null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		pins, err := trust.ParsePins("pins", data)
		if err != nil && len(pins) > 0 {
			t.Fatalf("%q: %v with %v", data, pins, err)
		}
		for _, pin := range pins {
			if pin.Status != trust.Revoked && pin.JWK == nil || len(pin.KeyID) != 43 || !pin.Agent.Valid() {
				t.Fatalf("%q: %+v", data, pin)
			}
		}
	})
}

// TestTrustStaysInTheWorkspace checks that links lead neither a reader nor a writer elsewhere.
func TestTrustStaysInTheWorkspace(t *testing.T) {
	w, home := newWorkspace(t, "claude", "codex")
	stub := newKey(t, home, "claude")
	elsewhere := t.TempDir()
	for _, folder := range []string{"trust", "agents/codex/trust"} {
		if err := os.Symlink(elsewhere, filepath.Join(w.Dir(), folder)); err != nil {
			t.Skip(err)
		}
	}
	if _, err := trust.Import(t.Context(), w, stub, "codex"); err == nil {
		t.Error("imported through a link")
	}
	if err := os.WriteFile(filepath.Join(elsewhere, "allowed_signers.yaml"), []byte("version: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.Pins(w, "codex"); err == nil {
		t.Error("read pins through a link")
	}
	if entries := must(os.ReadDir(elsewhere)); len(entries) != 1 {
		t.Errorf("the folder behind the link holds %v", entries)
	}
}

func TestCheck(t *testing.T) {
	w, home := newWorkspace(t, "claude", "codex", "gemini")
	stub := newKey(t, home, "claude")
	imports(t, w, stub, "codex")
	draft := schema.Message{
		From: "claude", To: []schema.AgentName{"codex", "gemini"}, Type: schema.Question, Subject: "S", Body: schema.TextValue("B"),
	}
	for _, sign := range []bool{true, false} {
		receipt, err := w.Send(t.Context(), draft, &mailbox.SendOptions{Sign: sign})
		if err != nil || (receipt.Message.Auth != "") != sign || (receipt.Message.File != "") != sign {
			t.Fatalf("sent %+v, %v", receipt, err)
		}
	}
	want := map[schema.AgentName][2]signing.Verdict{ // of the signed message, and of the other
		"codex": {"verified", "unverified"}, "gemini": {"unverified", ""}, "claude": {"", ""},
	}
	for agent, verdicts := range want {
		box := mailbox.Inbox
		if agent == "claude" {
			box = mailbox.Outbox
		}
		entries, err := w.List(t.Context(), agent, box)
		if err != nil || len(entries) != 2 {
			t.Fatalf("%s: %v, %v", agent, entries, err)
		}
		checker := trust.NewChecker(w)
		for _, e := range entries {
			verdict, of := checker.Check(e).Verdict, 0
			if e.Message.Auth == "" {
				of = 1
			}
			if verdict != verdicts[of] {
				t.Errorf("%s, signed %v: %q, want %q", agent, of == 0, verdict, verdicts[of])
			}
		}
	}
}

// TestCopiedToAnother checks that a message proves nothing to an agent that it is not addressed to.
func TestCopiedToAnother(t *testing.T) {
	w, home := newWorkspace(t, "claude", "codex", "gemini")
	imports(t, w, newKey(t, home, "claude"), "gemini")
	draft := schema.Message{From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: "S", Body: schema.TextValue("B")}
	receipt, err := w.Send(t.Context(), draft, &mailbox.SendOptions{Sign: true})
	if err != nil {
		t.Fatal(err)
	}
	e := mailbox.Entry{Agent: "gemini", Box: mailbox.Inbox, Message: receipt.Message}
	if f := trust.NewChecker(w).Check(e); f.Verdict != signing.VerdictBad || !strings.Contains(f.Reason, "not to gemini") {
		t.Errorf("got %+v, want bad, because it is to codex", f)
	}
}

// TestTwoSenders checks that no signature is good if readers may differ about the sender.
func TestTwoSenders(t *testing.T) {
	w, home := newWorkspace(t, "claude", "codex")
	imports(t, w, newKey(t, home, "claude"), "codex")
	key := must(signing.NewStore(home).Load("claude", ""))[0]
	for _, text := range []string{"from: claude\nfrom: codex\n", "from: codex\nfrom: claude\n", "from: claude\n---\nfrom: codex\n"} {
		r := trust.Verify(must(signing.Sign([]byte(text), key)), must(trust.Pins(w, "codex")), nil)
		if r.Status != signing.Invalid {
			t.Errorf("%q: %+v, want invalid", text, r)
		}
	}
}

func TestSettings(t *testing.T) {
	w, home := newWorkspace(t, "claude", "codex")
	first, second := newKey(t, home, "claude"), newKey(t, home, "claude")
	send := func(config string) ([]signing.Signature, error) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(w.Dir(), "agents", "claude", "config.yaml"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		m, _, _, err := w.Compose(schema.Message{
			From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question, Subject: "S", Body: schema.TextValue("B"),
		}, nil)
		if err != nil || m.Auth == "" {
			return nil, err
		}
		return signing.Parse(m.Auth)
	}
	for config, want := range map[string]int{
		"":                                   0,
		"autonomy: {}":                       0,
		"signing:":                           0,
		"signing: {}":                        0,
		"signing: {sign_messages: false}":    0,
		"signing: {sign_messages: no}":       0,
		"signing: {verify_mode: warn}":       0,
		"signing: {sign_messages: true}":     2,
		"signing: {sign_messages: Yes}":      2,
		"# signing\nother: [broken: no more": -1,
		"signing: {sign_messages: true, kid: " + string(first.KeyID) + "}":  1,
		"signing: {sign_messages: true, kid: " + string(second.KeyID) + "}": 1,
	} {
		if got, err := send(config); len(got) != max(want, 0) || (err != nil) != (want < 0) {
			t.Errorf("%q: %d signatures, %v; want %d", config, len(got), err, want)
		}
	}
	for _, config := range []string{
		"signing: true", "signing: [sign_messages]", `signing: {sign_messages: "true"}`, "signing: {sign_messages: 1}", "signing: {sign_messages: }",
		"signing: {sign_messages: y}", "signing: {sign_messages: true, kid: ''}", "signing: {sign_messages: true, kid: 42}", "signing: {sign_messages: true, kid: x}",
		"signing: {sign_messages: true", "[signing]",
	} {
		_, err := send(config)
		if failure.Of(err).Code != "bad_settings" || !strings.Contains(err.Error(), "config.yaml: ") {
			t.Errorf("%q: got %v, want bad settings", config, err)
		}
	}
	_, err := send("signing: {sign_messages: true, kid: " + string(newKey(t, t.TempDir(), "claude").KeyID) + "}")
	if _, ok := errors.AsType[*signing.NoKeyError](err); !ok {
		t.Errorf("a key of another machine: %v", err)
	}
}

// TestSignedOnceMore checks that a message that is sent again with other keys is the same message.
func TestSignedOnceMore(t *testing.T) {
	w, home := newWorkspace(t, "claude", "codex")
	newKey(t, home, "claude")
	draft := schema.Message{
		ID: "msg-20261122T0500Z-claude-k3x9", From: "claude", To: []schema.AgentName{"codex"}, Type: schema.Question,
		Subject: "S", Body: schema.TextValue("B"),
	}
	for i := range 2 {
		receipt, err := w.Send(t.Context(), draft, &mailbox.SendOptions{Sign: true})
		if err != nil || receipt.AlreadySent != (i > 0) {
			t.Fatalf("sent %+v, %v", receipt, err)
		}
		newKey(t, home, "claude")
	}
}

func TestReport(t *testing.T) {
	at := time.Date(2026, 11, 22, 5, 0, 0, 0, time.UTC)
	data := must(json.Marshal(trust.NewReport(signing.Verify([]byte("a: b\n"), nil, nil), "", at)))
	const want = `{"status":"unsigned","alg":null,"scheme":null,"claimed_sender":null,"verified_signer":null,"verified_instance":null,"kid":null,` +
		`"payload_sha256":"52c9693cf3f219d51ba6af4362ee092c55fb5e6f96d6f9da13c8ede7eff8e71b","trust_source":null,"signatures_checked":[],"reason":null,"verified_at_utc":"2026-11-22T05:00:00Z"}`
	if string(data) != want {
		t.Errorf("got %s", data)
	}
}

// TestFilesOfAnotherKind checks that something else in the place of a file is an error that names it
// once.
func TestFilesOfAnotherKind(t *testing.T) {
	w, _ := newWorkspace(t, "claude", "codex")
	for _, name := range []string{"trust/catalog.yaml", trust.PinsName("claude"), "agents/codex/config.yaml"} {
		if err := os.MkdirAll(filepath.Join(w.Dir(), name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, catalogErr := trust.Catalog(w)
	_, pinsErr := trust.Pins(w, "claude")
	for _, err := range []error{catalogErr, pinsErr, trust.CheckSettings(w, "codex")} {
		if err == nil || strings.Count(err.Error(), w.Dir()) != 1 {
			t.Errorf("got %v, want an error that names the file once", err)
		}
	}
}
