package signing_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

var update = flag.Bool("update", false, "rewrite the signed files in testdata")

// testKey returns a key that is the same in every run. Everybody knows it; never trust it.
func testKey(t testing.TB, agent schema.AgentName) *signing.Key {
	t.Helper()
	seed := bytes.Repeat([]byte{agent[0]}, 32)
	k, err := signing.NewKey(seed, agent, "0a4e7a62-6f4b-4c1e-9d7c-5d1c0a9b8e01", "7b1d2c3e-0000-4000-8000-00000000000"+string("0123456789abcdef"[agent[0]%16]))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pinsOf(t testing.TB, keys ...*signing.Key) signing.Pins {
	t.Helper()
	pins := make(signing.Pins)
	for _, k := range keys {
		public, err := k.JWK().PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		pins[k.ID] = signing.Pin{Agent: k.Agent, Key: public}
	}
	return pins
}

// senderOf reads the sender as simply as the files here allow.
func senderOf(signed []byte) schema.AgentName {
	for line := range strings.Lines(string(signed)) {
		if name, ok := strings.CutPrefix(line, "from: "); ok {
			return schema.AgentName(strings.TrimSpace(name))
		}
	}
	return ""
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sign(t testing.TB, file []byte, keys ...*signing.Key) []byte {
	t.Helper()
	signed, err := signing.Sign(file, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}
