package trust

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// A Report is the outcome of a verification in the form of the reference implementation: what oacp
// verify prints.
type Report struct {
	Status         signing.Status    `json:"status"`
	Algorithm      Optional          `json:"alg"`
	Scheme         Optional          `json:"scheme"`
	Sender         Optional          `json:"claimed_sender"`
	Signer         Optional          `json:"verified_signer"`
	Instance       Optional          `json:"verified_instance"`
	KeyID          Optional          `json:"kid"`
	Digest         Optional          `json:"payload_sha256"`
	Source         Optional          `json:"trust_source"`
	Checked        []signing.Checked `json:"signatures_checked"`
	Reason         Optional          `json:"reason"`
	VerifiedAt     schema.Timestamp  `json:"verified_at_utc"`
	QuarantineCopy string            `json:"quarantine_copy,omitempty"`
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
// evidence, and returns the path of the copy. If the copy exists, it is kept. The message stays where it
// is. The name of the copy is not that of a message file.
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
	defer root.Close() // the copy is synced by then
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
