package gitmail

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/oacp-go/oacp/schema"
)

// A Claim says that a machine works on a message for an agent. The ref refs/oacp/claims/<agent>/<message> points to a
// commit of the empty tree, whose message is the claim as a line of JSON. Its times are those of the machine's clock,
// which may be wrong, so they are only for people.
type Claim struct {
	// Machine is the name of the host.
	Machine string     `json:"machine"`
	State   ClaimState `json:"state"`
	// Attempt counts the turns on the message that began on any machine, including the current one.
	Attempt int `json:"attempt"`
	// Since is when the machine took the message, and Renewed when it last renewed the claim.
	Since   time.Time `json:"since"`
	Renewed time.Time `json:"renewed"`
	// Workspace is a number for the workspace on this start of the machine, and Process a mark of the process. With
	// the counter, they make every claim a different object.
	Workspace string `json:"workspace"`
	Process   string `json:"process"`
	Counter   uint64 `json:"counter"`
	// Lease is how long the claim holds after a renewal.
	Lease time.Duration `json:"lease_ns"`

	Agent schema.AgentName `json:"-"`
	ID    schema.ID        `json:"-"`
	// Ref is the full name of the ref, and Object the commit.
	Ref    string `json:"-"`
	Object string `json:"-"`
	// Err says why the ref holds no claim. Then only Agent, ID, Object and Ref are set.
	Err error `json:"-"`
}

// A ClaimState says what the machine does with the message.
type ClaimState string

// The states of a claim.
const (
	// ClaimWorking is a message that has a turn, or waits on the machine for its next one.
	ClaimWorking ClaimState = "working"
	// ClaimAhead is a message that the machine took together with another one, for later.
	ClaimAhead ClaimState = "ahead"
	// ClaimFree is a message that the machine gave back after a turn. Any machine may take it.
	ClaimFree ClaimState = "free"
	// claimGone is a claim whose ref has to be deleted.
	claimGone ClaimState = ""
)

func (s ClaimState) isEnding() bool { return s == claimGone || s == ClaimFree }

const (
	claimHeader = "oacp claim 1 "
	// maxClaim bounds the text of a claim, in bytes.
	maxClaim    = 2 << 10
	maxMachine  = 64
	maxAttempts = 1 << 20
)

// claimRef returns the ref for claims on a message. It escapes dots, which git allows only in some places.
func claimRef(agent schema.AgentName, id schema.ID) string {
	return claimRefs + strings.ReplaceAll(string(agent)+"/"+string(id), ".", "%2E")
}

// parseClaimRef is the inverse of claimRef.
func parseClaimRef(ref string) (agent schema.AgentName, id schema.ID, ok bool) {
	name, rest, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(ref, claimRefs), "%2E", "."), "/")
	agent, agentErr := schema.ParseAgentName(name)
	id = schema.ID(rest)
	_, idErr := schema.ParseID(id)
	return agent, id, agentErr == nil && idErr == nil && claimRef(agent, id) == ref
}

// text returns the message of the commit.
func (c Claim) text() string {
	c.Since, c.Renewed = c.Since.UTC().Truncate(time.Second), c.Renewed.UTC().Truncate(time.Second)
	data, _ := json.Marshal(c) // it fails only for times before the year 0 or after 9999
	return claimHeader + string(data)
}

// parseClaim parses the message of a commit. Only what text writes is accepted.
func parseClaim(text string) (c Claim, err error) {
	data, ok := strings.CutPrefix(text, claimHeader)
	if !ok || len(text) > maxClaim || json.Unmarshal([]byte(data), &c) != nil {
		return Claim{}, errors.New("it is not a claim")
	}
	if machineName(c.Machine) != c.Machine || c.text() != text || c.Attempt < 0 || c.Attempt > maxAttempts ||
		c.State != ClaimWorking && c.State != ClaimAhead && c.State != ClaimFree || c.Lease <= 0 || c.Lease > MaxLease {
		return Claim{}, errors.New("a value in the claim is not possible")
	}
	return c, nil
}

// claimAt returns the claim at a ref that points to an object with the text. It is not ok if the name of the ref is not
// one of a claim.
func claimAt(ref, object, text string) (c Claim, ok bool) {
	agent, id, ok := parseClaimRef(ref)
	c, err := parseClaim(text)
	c.Agent, c.ID, c.Ref, c.Object, c.Err = agent, id, ref, object, err
	return c, ok
}

// machineName returns a host's name with letters, digits, dots, underscores and hyphens only.
func machineName(host string) string {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(allowed, r) {
			return r
		}
		return '-'
	}, host)
	return cmp.Or(name[:min(len(name), maxMachine)], "unknown")
}

func hostName() string {
	host, _ := os.Hostname() // machineName accepts an empty one
	return machineName(host)
}
