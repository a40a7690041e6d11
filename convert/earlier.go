package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

// Earlier versions derived the message's id from the record's: its first 16 digits or, if it did
// not begin with so many or another record had the same, x and 24 digits of a hash. Such messages
// are never made again, but known.

// unknownRun is the run of an origin that earlier versions did not write down.
const unknownRun = -1

const earlierDigits = 16

// IsPrefix reports whether the origin has only the first 16 digits of the record's id.
func (o Origin) IsPrefix() bool { return o.Run == unknownRun && len(o.ID) == earlierDigits }

// earlierOrigin is OriginOf for a message that an earlier version derived.
func earlierOrigin(m *schema.Message) (Origin, bool) {
	rand, _, _ := strings.Cut(string(m.ID[strings.LastIndexByte(string(m.ID), '-')+1:]), "p")
	hash, hashed := strings.CutPrefix(rand, "x")
	ours := !hashed && len(rand) == earlierDigits || hashed && len(hash) == fingerprintDigits
	text, marked := strings.CutPrefix(m.ContextKeys, originMark)
	var o struct {
		ID  string `json:"id"`
		Run string `json:"run"`
	}
	if !ours || !startsWithDigits(hash) || !marked && text != "" || marked && json.Unmarshal([]byte(text), &o) != nil {
		return Origin{}, false
	}
	if o.ID == "" {
		return Origin{rand, unknownRun}, true
	}
	run, err := strconv.Atoi(o.Run)
	if err != nil {
		run = unknownRun
	}
	return Origin{o.ID, run}, true
}

// startsWithDigits reports whether the text begins with as many digits as an earlier id had.
func startsWithDigits(text string) bool {
	return len(text) >= earlierDigits && strings.Trim(text[:earlierDigits], "0123456789abcdef") == ""
}

// EarlierIDs returns the ids that the derived message may have if an earlier version delivered it
// as the given part of a broadcast. The same id may belong to another record: only a message that
// says the same is this one.
func EarlierIDs(r bridge.Record, part int) []schema.ID {
	at, _ := timeOf(r.Timestamp)
	rands := []string{"x" + Fingerprint(r), "x" + fingerprint(r, strconv.Itoa(r.RunID))}
	if startsWithDigits(r.ID) {
		rands = append(rands, r.ID[:earlierDigits])
	}
	ids := make([]schema.ID, len(rands))
	for i, rand := range rands {
		if part > 0 {
			rand += "p" + strconv.Itoa(part+1)
		}
		ids[i] = derivedID(at, schema.AgentName(r.From), rand)
	}
	return ids
}

const fingerprintDigits = 24

// Fingerprint returns 24 hexadecimal digits that differ for records that say something different,
// also if they have the same id.
func Fingerprint(r bridge.Record) string { return fingerprint(r) }

func fingerprint(r bridge.Record, more ...string) string {
	h := sha256.New()
	for _, text := range append([]string{r.ID, string(r.Type), r.From, r.To, r.Content, string(r.Signal)}, more...) {
		fmt.Fprintf(h, "%d:%s", len(text), text) // a hash never fails to write
	}
	return hex.EncodeToString(h.Sum(nil))[:fingerprintDigits]
}
