package signing

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
)

// A Store is the folder with the private keys of this machine: keys, beside the folder of the projects.
// Each key is a file <trust domain>/<agent>/<machine>/<key id>.json that only its owner can read,
// with the public half in <key id>.pub.json beside it.
type Store struct{ dir string }

// NewStore returns the store of the keys in a home folder, which need not exist.
func NewStore(home string) Store { return Store{filepath.Join(home, "keys")} }

const (
	domainName   = "trust_domain"
	instanceName = "instance_id"
	keySuffix    = ".json"
	stubSuffix   = ".pub.json"
	// maxKeyFile is the largest file of a key, in bytes.
	maxKeyFile = 64 << 10
)

// OtherHome helps users whose home the reference implementation finds around the workspace.
const OtherHome = "OACP_HOME or --oacp-dir names the home that has the keys, if it is not ~/oacp"

// A NoKeyError reports that there is no key to sign with.
type NoKeyError struct {
	Agent schema.AgentName
	// KeyID is the key that was asked for, or empty for any.
	KeyID KeyID
	// Folder is the folder that was searched.
	Folder string
}

func (e *NoKeyError) Error() string {
	if e.KeyID != "" {
		return fmt.Sprintf("%s has no key %s in %s", e.Agent, e.KeyID, e.Folder)
	}
	return fmt.Sprintf("%s has no key in %s", e.Agent, e.Folder)
}

func (e *NoKeyError) Explain() (code, hint string) {
	return "no_key", fmt.Sprintf("oacp key list shows the keys, oacp key gen --agent %s creates one; "+OtherHome, e.Agent)
}

// A KeyFileError reports that the file or folder of a key cannot be used.
type KeyFileError struct {
	Path string
	// Err does not name the file, unless it is a *fs.PathError.
	Err error
}

func (e *KeyFileError) Error() string {
	if _, named := errors.AsType[*fs.PathError](e.Err); named {
		return e.Err.Error()
	}
	return fmt.Sprintf("key %s: %v", e.Path, e.Err)
}

func (e *KeyFileError) Explain() (code, hint string) {
	return "bad_key", "a private key has mode 600 in a folder with mode 700; move a damaged one away and create a new one with oacp key gen"
}

func (e *KeyFileError) Unwrap() error { return e.Err }

// keyFile is the JSON of a private key: a JWK, and its owner.
type keyFile struct {
	JWK
	Seed      string           `json:"d"`
	KeyID     KeyID            `json:"kid"`
	Agent     schema.AgentName `json:"agent"`
	Domain    string           `json:"trust_domain"`
	Instance  string           `json:"instance_id"`
	CreatedAt schema.Timestamp `json:"created_at_utc"`
}

// List returns the keys of an agent, or of all agents if the name is empty, in the order of their
// paths. It skips files that are not keys.
func (s Store) List(agent schema.AgentName) ([]*Key, error) {
	root, names, err := s.find("*", keySuffix)
	if root == nil {
		return nil, err
	}
	defer root.Close() // nothing was written
	var keys []*Key
	for _, name := range names {
		if k, err := s.parse(root, name); err == nil && (agent == "" || k.Agent == agent) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// find opens the store, and returns the names of the files with the suffix in the folders of the agent, sorted. The root is
// nil if there is no store, or with an error.
func (s Store) find(agent, suffix string) (root *os.Root, names []string, err error) {
	root, err = durable.OpenRoot(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err == nil {
		names, err = fs.Glob(root.FS(), "*/"+agent+"/*/*"+suffix)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("keys: %w", err)
	}
	return root, slices.DeleteFunc(names, func(name string) bool {
		isStub := strings.HasSuffix(name, stubSuffix)
		return isStub && suffix != stubSuffix || strings.HasPrefix(path.Base(name), ".")
	}), nil
}

func (s Store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s Store) read(root *os.Root, name string) ([]byte, error) {
	return durable.ReadFile(root, s.dir, name, maxKeyFile)
}

// Load returns the keys of an agent, the newest first and at most maxSignatures, or only the one
// with the id unless that is empty. It returns a *NoKeyError if there is none, and a *KeyFileError
// if one cannot be used, so that no key is left out unnoticed.
func (s Store) Load(agent schema.AgentName, id KeyID) ([]*Key, error) {
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return nil, err
	}
	missing := &NoKeyError{Agent: agent, KeyID: id, Folder: s.dir}
	root, names, err := s.find(string(agent), keySuffix)
	if err != nil {
		return nil, &KeyFileError{s.dir, err}
	}
	if root == nil {
		return nil, missing
	}
	defer root.Close() // nothing was written
	var keys []*Key
	for _, name := range names {
		if id != "" && path.Base(name) != string(id)+keySuffix {
			continue
		}
		k, err := s.load(root, name, agent)
		if err != nil {
			return nil, &KeyFileError{s.path(name), err}
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, missing
	}
	slices.SortStableFunc(keys, func(a, b *Key) int { return strings.Compare(string(b.CreatedAt), string(a.CreatedAt)) })
	return keys[:min(len(keys), maxSignatures)], nil
}

// Stubs returns the public halves of an agent's keys. It skips files that are not public keys. The error is a *KeyFileError
// if others could have put one there: whoever verifies with the stubs trusts them.
func (s Store) Stubs(agent schema.AgentName) (stubs []PublicStub, err error) {
	root, names, err := s.find("*", stubSuffix)
	if root == nil {
		return nil, err
	}
	defer root.Close() // nothing was written
	for _, name := range names {
		data, err := s.read(root, name)
		if err != nil {
			continue
		}
		stub, err := ParsePublicStub(data)
		if err != nil || stub.Agent != agent {
			continue
		}
		if err := s.checkModes(name); err != nil {
			return nil, &KeyFileError{s.path(name), err}
		}
		stubs = append(stubs, stub)
	}
	return stubs, err
}

// load reads a private key. It returns an error if users other than the owner can access it.
func (s Store) load(root *os.Root, name string, agent schema.AgentName) (*Key, error) {
	k, err := s.parse(root, name)
	if err != nil {
		return nil, err
	}
	if err := s.checkModes(name); err != nil {
		return nil, err
	}
	if k.Agent != agent {
		return nil, fmt.Errorf("it is the key of %q", k.Agent)
	}
	return k, nil
}

// checkModes returns an error if users other than the owner can read a private key or the folder of a key, or write to a
// public key or to a folder above, up to the home: who can do that can put another key in its place.
func (s Store) checkModes(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	modes := []fs.FileMode{0o600, 0o700, 0o755, 0o755, 0o755, 0o755} // domain, agent, keys, home
	if strings.HasSuffix(name, stubSuffix) {
		modes[0] = 0o644
	}
	name = s.path(name)
	for _, want := range modes {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		forbidden, can := fs.FileMode(0o077), "access"
		if want&0o044 != 0 {
			forbidden, can = 0o022, "write to"
		}
		if mode := info.Mode().Perm(); mode&forbidden != 0 {
			return fmt.Errorf("users other than the owner can %s %s: its mode is %o, want %o", can, name, mode, want)
		}
		name = filepath.Dir(name)
	}
	return nil
}

// parse reads the file of a private key and checks that its parts fit each other.
func (s Store) parse(root *os.Root, name string) (*Key, error) {
	data, err := s.read(root, name)
	if err != nil {
		return nil, err
	}
	var f keyFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("the file is not a key: %w", err)
	}
	seed, err := base64.RawURLEncoding.DecodeString(f.Seed)
	if err != nil {
		return nil, errors.New("d is not base64url")
	}
	k, err := NewKey(seed, f.Agent, f.Domain, f.Instance)
	if err != nil {
		return nil, err
	}
	k.CreatedAt, k.Path = f.CreatedAt, s.path(name)
	switch {
	case k.JWK() != f.JWK:
		return nil, errors.New("the private key does not belong to the public key")
	case k.ID != f.KeyID:
		return nil, errors.New("kid is not the thumbprint of the key")
	}
	return k, nil
}

// Generate makes a key for an agent, and the folders and identities that are missing.
func (s Store) Generate(agent schema.AgentName, now time.Time) (k *Key, err error) {
	if _, err := schema.ParseAgentName(string(agent)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(s.dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := durable.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() // save has synced it
	// Not every file system can rename a file without replacing that of another process.
	lock := durable.NewLock(filepath.Join(s.dir, ".lock"))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	domain, err := s.identity(root, domainName)
	if err != nil {
		return nil, err
	}
	instance, err := s.identity(root, instanceName)
	if err != nil {
		return nil, err
	}
	if k, err = randomKey(agent, domain, instance); err != nil {
		return nil, err
	}
	k.CreatedAt = schema.NewTimestamp(now)
	return k, s.save(root, k)
}

// randomKey returns a new key. Its id does not begin with a hyphen, which would make it look like a flag.
func randomKey(agent schema.AgentName, domain, instance string) (*Key, error) {
	seed := make([]byte, ed25519.SeedSize)
	for {
		_, _ = rand.Read(seed) // it never fails
		if k, err := NewKey(seed, agent, domain, instance); err != nil || k.ID[0] != '-' {
			return k, err
		}
	}
}

// Instance returns the id of this machine, empty if it has no keys.
func (s Store) Instance() string {
	data, err := durable.ReadPath(filepath.Join(s.dir, instanceName), maxKeyFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// identity returns the UUID in a file. It makes the file if that is missing.
func (s Store) identity(root *os.Root, name string) (string, error) {
	data, err := s.read(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = s.add(root, name, []byte(newUUID()+"\n"), 0o644)
		if err == nil || errors.Is(err, fs.ErrExist) { // another process may have been faster
			data, err = s.read(root, name)
		}
	}
	id := strings.TrimSpace(string(data))
	if err == nil && (!isUUID(id) || strings.Contains(id, ":")) {
		err = &KeyFileError{filepath.Join(s.dir, name), errors.New("the file does not contain a UUID")}
	}
	return id, err
}

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

func (s Store) save(root *os.Root, k *Key) error {
	f := keyFile{
		JWK: k.JWK(), Seed: base64.RawURLEncoding.EncodeToString(k.private.Seed()),
		KeyID: k.ID, Agent: k.Agent, Domain: k.Domain, Instance: k.Instance, CreatedAt: k.CreatedAt,
	}
	stub := PublicStub{k.ID, f.JWK, k.Agent, k.AgentURN(), k.InstanceURN(), k.CreatedAt}
	private, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	public, err := json.MarshalIndent(stub, "", "  ")
	if err != nil {
		return err
	}
	folder := ""
	for _, part := range []string{k.Domain, string(k.Agent), k.Instance} {
		parent := folder
		folder = path.Join(folder, part)
		if err := root.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := durable.SyncFolder(s.path(parent)); err != nil {
			return err
		}
	}
	name := folder + "/" + string(k.ID)
	if err := s.add(root, name+stubSuffix, append(public, '\n'), 0o644); err != nil {
		return err
	}
	k.Path = s.path(name + keySuffix)
	return s.add(root, name+keySuffix, append(private, '\n'), 0o600)
}

// add writes a new file, durably and atomically. The error matches fs.ErrExist if the file exists.
func (s Store) add(root *os.Root, name string, data []byte, mode os.FileMode) error {
	dir, err := durable.OpenDir(root, s.dir, path.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Add(path.Base(name), data, mode), dir.Close())
}
