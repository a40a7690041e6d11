package trust

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// A Report is the outcome of a verification in the form of the reference implementation: what oacp
// verify prints, and what records of autonomy decisions hold under result.message_auth.
type Report struct {
	Status         signing.Status    `json:"status" yaml:"status"`
	Algorithm      Optional          `json:"alg" yaml:"alg"`
	Scheme         Optional          `json:"scheme" yaml:"scheme"`
	Sender         Optional          `json:"claimed_sender" yaml:"claimed_sender"`
	Signer         Optional          `json:"verified_signer" yaml:"verified_signer"`
	Instance       Optional          `json:"verified_instance" yaml:"verified_instance"`
	KeyID          Optional          `json:"kid" yaml:"kid"`
	Digest         Optional          `json:"payload_sha256" yaml:"payload_sha256"`
	Source         Optional          `json:"trust_source" yaml:"trust_source"`
	Checked        []signing.Checked `json:"signatures_checked" yaml:"signatures_checked"`
	Reason         Optional          `json:"reason" yaml:"reason"`
	VerifiedAt     schema.Timestamp  `json:"verified_at_utc" yaml:"verified_at_utc"`
	QuarantineCopy string            `json:"quarantine_copy,omitempty" yaml:"quarantine_copy,omitempty"`
}

// NewReport returns the report of a result. Source is the path of the pins.
func NewReport(r signing.Result, source string, now time.Time) Report {
	report := Report{
		Status: r.Status, Sender: Optional(r.Sender), Digest: Optional(r.Digest), Source: Optional(source),
		Checked: append([]signing.Checked{}, r.Checked...), Reason: Optional(r.Reason), VerifiedAt: schema.NewTimestamp(now),
	}
	if r.HasTrailer {
		report.Algorithm, report.Scheme = signing.Algorithm, signing.Scheme
	}
	if s := r.Signature; s != nil {
		report.Signer, report.Instance, report.KeyID = Optional(s.Agent), Optional(s.Instance), Optional(s.KeyID)
	}
	return report
}

// Quarantine copies a message that is not verified to the dead letters beside the folder of its file, as
// evidence, unless they have it, and returns the path of the copy. The message stays where it is. The name of
// the copy is not that of a message file.
func Quarantine(path string, data []byte, now time.Time) (copied string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(filepath.Dir(path))
	root, err := durable.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() // what was written is synced by then
	const folder = string(schema.DeadLetters)
	if err := root.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	letters, err := durable.OpenDir(root, dir, folder)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, letters.Close()) }()
	sum := sha256.Sum256(data)
	base := filepath.Base(path)
	base = fmt.Sprintf("%s.%x.", base[:min(len(base), maxBase)], sum[:4])
	names, err := letters.Names()
	if i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, base) }); i >= 0 {
		return letters.Path(names[i]), err
	}
	name := base + now.UTC().Format("20060102T150405Z")
	return letters.Path(name), cmp.Or(err, letters.Replace(name, data, 0o600))
}

// maxBase is how much of a file name the name of its copy has, in bytes.
const maxBase = 200

// Attach writes a report into the record of an autonomy decision, a YAML file, under
// result.message_auth. It refuses to replace one that is there. Other programs that use the lock of
// the reference implementation wait meanwhile.
func Attach(ctx context.Context, path string, report Report) (err error) {
	dir, err := durable.OpenPath(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	name := filepath.Base(path)
	info, err := dir.Lstat(name) // a missing file gets no lock file
	if err != nil {
		return err
	}
	return underLock(ctx, dir, name, func() error {
		data, err := dir.ReadFile(name, maxFile)
		if err != nil {
			return err
		}
		if data, err = attach(data, report); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return dir.Replace(name, data, info.Mode().Perm())
	})
}

func attach(data []byte, report Report) ([]byte, error) {
	var document, block yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is not a mapping")
	}
	result := member(document.Content[0], "result")
	if result == nil || result.Kind != yaml.MappingNode {
		return nil, errors.New("result is not a mapping")
	}
	if err := block.Encode(report); err != nil {
		return nil, err
	}
	switch old := member(result, "message_auth"); {
	case old == nil:
		result.Content = append(result.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "message_auth"}, &block)
	case old.Kind == yaml.MappingNode && member(old, "status") != nil && strings.TrimSpace(member(old, "status").Value) != "":
		return nil, errors.New("result.message_auth already exists")
	default:
		*old = block
	}
	return encode(&document)
}

// member returns the value of a key of a mapping, nil if there is none.
func member(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}
