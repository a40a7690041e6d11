package signing_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func generate(t *testing.T, store signing.Store, agent schema.AgentName, now time.Time) *signing.Key {
	t.Helper()
	stored, err := store.Generate(agent, now)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func TestStore(t *testing.T) {
	home := filepath.Join(t.TempDir(), "not", "there")
	store := signing.NewStore(home)
	if keys, err := store.List(""); len(keys) > 0 || err != nil {
		t.Errorf("an empty store lists %v, %v", keys, err)
	}
	if _, err := store.Load("ada", ""); !isNoKey(err) {
		t.Errorf("an empty store: %v", err)
	}
	first, second := generate(t, store, "ada", noon), generate(t, store, "ada", noon.Add(time.Hour))
	other := generate(t, store, "ben", noon)
	keys, err := store.Load("ada", "")
	if err != nil || len(keys) != 2 || keys[0].ID != second.ID || keys[1].ID != first.ID {
		t.Fatalf("got %v, %v; want the newest key first", keys, err)
	}
	if keys[0].Domain != keys[1].Domain || keys[0].Instance != keys[1].Instance {
		t.Error("two keys of one machine name two machines")
	}
	if keys, err := store.Load("ada", first.ID); err != nil || len(keys) != 1 || keys[0].ID != first.ID {
		t.Errorf("got %v, %v; want only the first key", keys, err)
	}
	if _, err := store.Load("ada", other.ID); !isNoKey(err) {
		t.Errorf("the key of another agent: %v", err)
	}
	if all, err := store.List(""); err != nil || len(all) != 3 {
		t.Errorf("got %v, %v; want three keys", all, err)
	}
	if some, err := store.List("ben"); err != nil || len(some) != 1 || some[0].ID != other.ID {
		t.Errorf("got %v, %v; want %v", some, err, other)
	}
	if _, err := store.Generate("../ada", noon); err == nil {
		t.Error("a key for ../ada was made")
	}
	if _, err := store.Load("*", ""); err == nil || isNoKey(err) {
		t.Errorf("keys for *: %v", err)
	}

	var stub signing.PublicStub
	data, err := os.ReadFile(first.StubPath())
	if err == nil {
		stub, err = signing.ParsePublicStub(data)
	}
	if err != nil || stub.KeyID != first.ID || stub.Domain() != keys[0].Domain || stub.InstanceID() != keys[0].Instance || stub.CreatedAt != "2026-11-22T12:00:00Z" {
		t.Errorf("the stub is %+v, %v", stub, err)
	}
	if strings.Contains(string(data), `"d"`) {
		t.Errorf("the stub holds the private key: %s", data)
	}
}

func isNoKey(err error) bool {
	_, ok := errors.AsType[*signing.NoKeyError](err)
	return ok
}

// TestKeyFiles checks that a key is used only if nobody else can read it and its parts fit.
func TestKeyFiles(t *testing.T) {
	edit := func(name, value string) func(*testing.T, *signing.Key) {
		return func(t *testing.T, k *signing.Key) {
			data, err := os.ReadFile(k.Path)
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]any
			if err := json.Unmarshal(data, &fields); err != nil {
				t.Fatal(err)
			}
			if fields[name] = value; value == "" {
				delete(fields, name)
			}
			data, _ = json.Marshal(fields)
			if err := os.WriteFile(k.Path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	mode := func(of func(string) string, mode os.FileMode) func(*testing.T, *signing.Key) {
		return func(t *testing.T, k *signing.Key) {
			if runtime.GOOS == "windows" {
				t.Skip("Windows has no such modes")
			}
			if err := os.Chmod(of(k.Path), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(path string) string { return path }
	other := testKey(t, "ada")
	for name, change := range map[string]func(*testing.T, *signing.Key){
		"readable by the group":                    mode(file, 0o640),
		"readable by all":                          mode(file, 0o604),
		"a folder open to all":                     mode(filepath.Dir, 0o755),
		"an agent's folder that others may change": mode(func(path string) string { return filepath.Dir(filepath.Dir(path)) }, 0o770),
		"a folder of keys that others may change":  mode(keysOf, 0o720),
		"a home that others may change":            mode(func(path string) string { return filepath.Dir(keysOf(path)) }, 0o777),
		"another public key":                       edit("x", other.JWK().X),
		"another id":                               edit("kid", string(other.ID)),
		"a short private key":                      edit("d", "AAAA"),
		"no private key":                           edit("d", ""),
		"another agent":                            edit("agent", "ben"),
		"an invalid domain":                        edit("trust_domain", "here"),
		"an invalid machine":                       edit("instance_id", "../.."),
		"another kind of key":                      edit("crv", "X25519"),
		"not JSON":                                 func(t *testing.T, k *signing.Key) { write(t, k.Path, "{") },
		"empty":                                    func(t *testing.T, k *signing.Key) { write(t, k.Path, "") },
	} {
		t.Run(name, func(t *testing.T) {
			store := signing.NewStore(t.TempDir())
			k := generate(t, store, "ada", noon)
			change(t, k)
			_, err := store.Load("ada", "")
			bad, ok := errors.AsType[*signing.KeyFileError](err)
			if !ok || bad.Path != k.Path {
				t.Errorf("got %v, want a *KeyFileError about %s", err, k.Path)
			}
		})
	}
}

// keysOf returns the folder of all keys.
func keysOf(path string) string {
	for filepath.Base(path) != "keys" {
		path = filepath.Dir(path)
	}
	return path
}

// TestLowOrder checks that a key with which anybody can sign is none. The library accepts such signatures.
func TestLowOrder(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("00", 32), "01" + strings.Repeat("00", 31), "01" + strings.Repeat("00", 30) + "80", "ec" + strings.Repeat("ff", 30) + "7f",
		"ee" + strings.Repeat("ff", 30) + "7f", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	} {
		key, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		forged := append(append([]byte{1}, make([]byte, 31)...), make([]byte, 32)...)
		accepted := false
		for n := range 64 { // for a message in eight, the forged signature of a point of order eight is good
			accepted = accepted || ed25519.Verify(key, []byte{byte(n)}, forged)
		}
		jwk := signing.JWK{Type: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(key)}
		if _, err := jwk.PublicKey(); err == nil || !accepted {
			t.Errorf("%s is a key: %v; a forged signature is accepted: %v", text, err, accepted)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKeyIDsAreArguments checks that the id of a new key never looks like a flag.
func TestKeyIDsAreArguments(t *testing.T) {
	const id = "0a4e7a62-6f4b-4c1e-9d7c-5d1c0a9b8e01"
	for range 2000 {
		if k, err := signing.RandomKey("ada", id, id); err != nil || strings.HasPrefix(string(k.ID), "-") {
			t.Fatalf("got %+v, %v", k, err)
		}
	}
}

// TestLinkToKey checks that a link to a key file does not count as a key.
func TestLinkToKey(t *testing.T) {
	store := signing.NewStore(t.TempDir())
	k := generate(t, store, "ada", noon)
	elsewhere := filepath.Join(t.TempDir(), "key.json")
	if err := os.Rename(k.Path, elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, k.Path); err != nil {
		t.Skip(err)
	}
	if _, err := store.Load("ada", ""); err == nil || !strings.Contains(err.Error(), "link is not followed") {
		t.Errorf("got %v", err)
	}
}

// TestPrivateFiles checks the modes of what Generate writes.
func TestPrivateFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	home := t.TempDir()
	k := generate(t, signing.NewStore(home), "ada", noon)
	want := map[string]os.FileMode{k.Path: 0o600, filepath.Join(home, "keys"): 0o700}
	for dir := filepath.Dir(k.Path); dir != home; dir = filepath.Dir(dir) {
		want[dir] = 0o700
	}
	for path, mode := range want {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != mode {
			t.Errorf("%s has mode %o, want %o", path, got, mode)
		}
	}
}

// TestIdentitiesAreMadeOnce checks that keys made at the same time name one machine.
func TestIdentitiesAreMadeOnce(t *testing.T) {
	store := signing.NewStore(t.TempDir())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := store.Generate("ada", noon); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	keys, err := store.Load("ada", "")
	if err != nil || len(keys) != 8 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, k := range keys {
		if k.Domain != keys[0].Domain || k.Instance != keys[0].Instance {
			t.Errorf("%s and %s, %s and %s", k.Domain, keys[0].Domain, k.Instance, keys[0].Instance)
		}
	}
}

func TestInvalidIdentityFile(t *testing.T) {
	home := t.TempDir()
	store := signing.NewStore(home)
	generate(t, store, "ada", noon)
	write(t, filepath.Join(home, "keys", "trust_domain"), "../../elsewhere\n")
	_, err := store.Generate("ada", noon)
	if _, ok := errors.AsType[*signing.KeyFileError](err); !ok {
		t.Errorf("got %v, want a *KeyFileError", err)
	}
}

func TestPublicStub(t *testing.T) {
	_, data := stubOf(t)
	for name, replace := range map[string][2]string{
		"a private key":        {`"x":`, `"d": "AAAA", "x":`},
		"another id":           {`"kid": "`, `"kid": "x`},
		"another agent":        {`"agent": "ada"`, `"agent": "ben"`},
		"an invalid agent":     {`"agent": "ada"`, `"agent": ".."`},
		"an invalid domain":    {"urn:oacp:agent:", "urn:oacp:agent:x"},
		"a machine of no form": {"urn:uuid:", "uuid:"},
		"another curve":        {"Ed25519", "X25519"},
		"a member twice":       {`"kid": `, `"kid": "", "kid": `},
		"not JSON":             {"{", ""},
	} {
		changed := strings.Replace(data, replace[0], replace[1], 1)
		_, err := signing.ParsePublicStub([]byte(changed))
		if err == nil || changed == data {
			t.Errorf("%s: no error", name)
		}
	}
	for name, replace := range map[string][2]string{
		"as it is":       {"", ""},
		"a new member":   {`"kid": `, `"comment": [], "kid": `},
		"no creation":    {`"created_at_utc"`, `"made"`},
		"creation: null": {`"2026-11-22T12:00:00Z"`, "null"},
	} {
		if _, err := signing.ParsePublicStub([]byte(strings.Replace(data, replace[0], replace[1], 1))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func stubOf(t *testing.T) (*signing.Key, string) {
	t.Helper()
	stored := generate(t, signing.NewStore(t.TempDir()), "ada", noon)
	data, err := os.ReadFile(stored.StubPath())
	if err != nil {
		t.Fatal(err)
	}
	return stored, string(data)
}

// TestStubsOfOthers checks that a public key counts only if nobody else could have written it.
func TestStubsOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	home := t.TempDir()
	store := signing.NewStore(home)
	k, err := store.Generate("claude", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(k.Path)
	for path, mode := range map[string]os.FileMode{k.StubPath(): 0o666, folder: 0o770, filepath.Dir(folder): 0o777, filepath.Join(home, "keys"): 0o777} {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Chmod(path, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
		if stubs, err := store.Stubs("claude"); err == nil {
			t.Errorf("with mode %o of %s: %v", mode, path, stubs)
		}
		if err := os.Chmod(path, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	if stubs, err := store.Stubs("claude"); err != nil || len(stubs) != 1 {
		t.Errorf("%v, %v; want the key", stubs, err)
	}
}
