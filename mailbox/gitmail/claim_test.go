package gitmail

import (
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/schema"
)

func exampleClaim() Claim {
	at := time.Date(2026, 3, 13, 14, 30, 0, 0, time.UTC)
	return Claim{
		Machine: "laptop.local", State: ClaimWorking, Attempt: 2, Since: at, Renewed: at.Add(time.Minute), Lease: 5 * time.Minute,
		Workspace: strings.Repeat("0a", 16), Process: strings.Repeat("f9", 16), Counter: 12,
	}
}

func TestClaimFormat(t *testing.T) {
	c := exampleClaim()
	const want = `oacp claim 1 {"machine":"laptop.local","state":"working","attempt":2,` +
		`"since":"2026-03-13T14:30:00Z","renewed":"2026-03-13T14:31:00Z",` +
		`"workspace":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","process":"f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9","counter":12,"lease_ns":300000000000}`
	if got := c.text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	parsed, err := parseClaim(want)
	if err != nil || parsed != c {
		t.Errorf("got %+v, %v, want %+v", parsed, err, c)
	}
	replace := func(old, replacement string) string { return strings.Replace(want, old, replacement, 1) }
	for what, text := range map[string]string{
		"empty": "", "header only": claimHeader, "another version": replace("claim 1", "claim 2"),
		"a field less": replace(`,"counter":12`, ""), "a field more": replace("}", `,"more":1}`), "a newline": want + "\n",
		"another order": replace(`"machine":"laptop.local","state":"working"`, `"state":"working","machine":"laptop.local"`),
		"another case":  replace("machine", "Machine"), "another type": replace("12", `"12"`), "a fraction": replace("12", "1.5"),
		"escape": replace("laptop", "lap\\u001btop"), "a space": replace("laptop", "lap top"), "no machine": replace("laptop.local", ""),
		"long machine":     replace("laptop", strings.Repeat("x", maxMachine)),
		"negative attempt": replace(`"attempt":2`, `"attempt":-2`),
		"long lease":       replace("300000000000", "3000000000000000"), "negative lease": replace("300000000000", "-300000000000"),
		"no time": replace("2026-03-13T14:31:00Z", "yesterday"), "another zone": replace("14:31:00Z", "15:31:00+01:00"),
		"part of a second": replace("14:31:00Z", "14:31:00.5Z"), "another state": replace("working", "sleeping"),
		"large": want + strings.Repeat(" ", maxClaim),
	} {
		if _, err := parseClaim(text); err == nil {
			t.Errorf("%s: %q is accepted", what, text)
		}
	}
}

func TestClaimRefs(t *testing.T) {
	for ref, want := range map[string]struct {
		agent schema.AgentName
		id    schema.ID
	}{
		"refs/oacp/claims/codex/msg-20260313T1430Z-claude-9x2k":      {"codex", "msg-20260313T1430Z-claude-9x2k"},
		"refs/oacp/claims/a%2Elock/msg-20260313T1430Z-b%2E%2Ec-9x2k": {"a.lock", "msg-20260313T1430Z-b..c-9x2k"},
	} {
		agent, id, ok := parseClaimRef(ref)
		if !ok || agent != want.agent || id != want.id || claimRef(agent, id) != ref {
			t.Errorf("%s: got %s, %s, %v; its ref is %s", ref, agent, id, ok, claimRef(agent, id))
		}
	}
	for _, ref := range []string{
		"refs/heads/oacp", "refs/oacp/claims/codex", "refs/oacp/claims/codex/x", "refs/oacp/claims/codex/msg-20260313T1430Z-claude-9x2k/more",
		"refs/oacp/claims/-rf/msg-20260313T1430Z-claude-9x2k", "refs/oacp/claims/a.b/msg-20260313T1430Z-claude-9x2k",
		"refs/oacp/claims/codex/msg-20260313T1430Z-a.b-9x2k",
	} {
		if agent, id, ok := parseClaimRef(ref); ok {
			t.Errorf("%s is accepted as a claim of %s on %s", ref, agent, id)
		}
	}
}

func FuzzClaim(f *testing.F) {
	c := exampleClaim()
	f.Add(c.text())
	f.Add(claimHeader)
	f.Add(strings.ReplaceAll(c.text(), `"`, "\x00"))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseClaim(text)
		if err == nil && c.text() != text {
			t.Errorf("%q is accepted, and written as %q", text, c.text())
		}
	})
}
