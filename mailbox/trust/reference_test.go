package trust_test

import (
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/validate"
)

// TestReferenceVectors verifies the messages that the reference implementation publishes for others.
// OACP_REFERENCE names a checkout of it.
func TestReferenceVectors(t *testing.T) {
	tree := os.Getenv("OACP_REFERENCE")
	if tree == "" {
		t.Skip("OACP_REFERENCE does not name a checkout of the reference implementation")
	}
	corpus := filepath.Join(tree, "tests", "conformance", "signing")
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(corpus, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	pins, err := trust.ParsePins("pins", read("pins/allowed_signers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := filepath.Glob(filepath.Join(corpus, "expected", "*.yaml"))
	if err != nil || len(cases) < 20 {
		t.Fatalf("found %d cases, %v", len(cases), err)
	}
	for _, path := range cases {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var test struct {
				Message, Prefix string
				Expected        struct {
					State    string   `yaml:"trailer_state"`
					Digest   string   `yaml:"prefix_sha256"`
					Findings []string `yaml:"validate_errors"`
					Auth     struct {
						Status   signing.Status
						Sender   string            `yaml:"claimed_sender"`
						Signer   string            `yaml:"verified_signer"`
						Instance string            `yaml:"verified_instance"`
						KeyID    string            `yaml:"kid"`
						Digest   string            `yaml:"payload_sha256"`
						Checked  []signing.Checked `yaml:"signatures_checked"`
					} `yaml:"message_auth"`
				}
			}
			if err := yaml.Unmarshal(read("expected/"+filepath.Base(path)), &test); err != nil {
				t.Fatal(err)
			}
			file, want := read(test.Message), test.Expected
			signed, auth, err := signing.Split(file)
			state := "absent"
			if auth != "" {
				state = "ok"
			} else if err != nil {
				state = "malformed"
			}
			if state != want.State {
				t.Errorf("the trailer is %s, want %s", state, want.State)
			}
			if test.Prefix != "" && string(signed) != string(read(test.Prefix)) {
				t.Errorf("signed are %q", signed)
			}
			r := trust.Verify(file, pins, nil)
			if r.Status != want.Auth.Status || r.Digest != want.Digest || r.Digest != want.Auth.Digest || string(r.Sender) != want.Auth.Sender {
				t.Errorf("got %+v, want %+v", r, want)
			}
			var s signing.Signature
			if r.Signature != nil {
				s = *r.Signature
			}
			if string(s.KeyID) != want.Auth.KeyID || s.Agent != want.Auth.Signer || s.Instance != want.Auth.Instance {
				t.Errorf("the signature is %+v, want %+v", s, want.Auth)
			}
			if len(r.Checked) != len(want.Auth.Checked) {
				t.Fatalf("signatures: got %+v, want %+v", r.Checked, want.Auth.Checked)
			}
			for i, c := range want.Auth.Checked {
				if r.Checked[i] != c {
					t.Errorf("signature %d: got %+v, want %+v", i, r.Checked[i], c)
				}
			}
			if _, findings := validate.Bytes("", file); findings.HasErrors() != (len(want.Findings) > 0) {
				t.Errorf("validate: got %v, want %v", findings, want.Findings)
			}
		})
	}
}
