package signing

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
)

var RandomKey = randomKey

// SignPolicy signs the content of a policy file, as the reference implementation does.
func SignPolicy(content []byte, p Policy, keys ...*Key) ([]byte, error) {
	claim, err := json.Marshal(map[string]string{"kind": string(p.Kind), "project": p.Project, "receiver": string(p.Receiver)})
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, k := range keys {
		header := `{"alg":"EdDSA","crit":["oacp"],"kid":"` + string(k.ID) + `","oacp":{"agent":"` + k.AgentURN() + `","domain":"` + policies.domain +
			`","instance":"` + k.InstanceURN() + `","policy":` + string(claim) + `,"scheme":"` + Scheme + `"},"typ":"` + policies.typ + `"}`
		protected := base64.RawURLEncoding.EncodeToString([]byte(header))
		signature := ed25519.Sign(k.private, signingInput(protected, content))
		entries = append(entries, entry{protected, base64.RawURLEncoding.EncodeToString(signature)})
	}
	auth := base64.RawURLEncoding.EncodeToString([]byte(encodeEntries(entries)))
	return append(content[:len(content):len(content)], `auth: "`+auth+"\"\n"...), nil
}
