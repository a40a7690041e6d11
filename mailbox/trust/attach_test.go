package trust_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/internal/testing/check"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/signing"
)

// TestAttach checks which records of decisions take a report, and that the others stay as they are.
func TestAttach(t *testing.T) {
	for name, test := range map[string]struct{ record, problem string }{
		"a result":         {"decision: proceed\nresult:\n  note: kept\n", ""},
		"an empty report":  {"result:\n  message_auth:\n    status: \"\"\n  note: kept\n", ""},
		"another report":   {"result:\n  message_auth:\n    status: valid\n", "already exists"},
		"a list":           {"- result\n", "not a mapping"},
		"nothing":          {"", "not a mapping"},
		"no result":        {"decision: proceed\n", "result is not a mapping"},
		"a text as result": {"result: done\n", "result is not a mapping"},
		"no YAML":          {"result: [\n", "yaml"},
	} {
		path := filepath.Join(t.TempDir(), "record.yaml")
		check.WriteFile(t, path, test.record)
		err := trust.Attach(t.Context(), path, trust.Report{Status: signing.Unsigned})
		text := check.ReadFile(t, path)
		switch {
		case test.problem != "":
			check.Error(t, err, path, test.problem)
			if text != test.record {
				t.Errorf("%s: the record is %q, want %q", name, text, test.record)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !strings.Contains(text, "note: kept") || !strings.Contains(text, "status: "+string(signing.Unsigned)):
			t.Errorf("%s: the record is %q", name, text)
		}
	}
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if err := trust.Attach(t.Context(), missing, trust.Report{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a record that is missing: %v", err)
	}
}
