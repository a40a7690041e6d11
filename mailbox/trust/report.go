package trust

import (
	"time"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// A Report is the outcome of a verification in the form of the reference implementation: what oacp
// verify prints.
type Report struct {
	Status     signing.Status    `json:"status"`
	Algorithm  Optional          `json:"alg"`
	Scheme     Optional          `json:"scheme"`
	Sender     Optional          `json:"claimed_sender"`
	Signer     Optional          `json:"verified_signer"`
	Instance   Optional          `json:"verified_instance"`
	KeyID      Optional          `json:"kid"`
	Digest     Optional          `json:"payload_sha256"`
	Source     Optional          `json:"trust_source"`
	Checked    []signing.Checked `json:"signatures_checked"`
	Reason     Optional          `json:"reason"`
	VerifiedAt schema.Timestamp  `json:"verified_at_utc"`
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
