package signing_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/signing"
)

// The policies of the files in testdata/policy, which a program in Python signed with the functions of the
// reference implementation for encoding and framing.
var (
	configOfAda = signing.Policy{Kind: signing.ReceiverConfig, Project: "demo", Receiver: "ada"}
	pinsOfAda   = signing.Policy{Kind: signing.AllowedSigners, Project: "démo & <co>", Receiver: "ada"}
)

func publicOf(k *signing.Key) signing.PublicStub {
	return signing.PublicStub{KeyID: k.ID, JWK: k.JWK(), Agent: k.Agent, AgentURN: k.AgentURN(), Instance: k.InstanceURN()}
}

func signPolicy(t *testing.T, content []byte, p signing.Policy, keys ...*signing.Key) []byte {
	t.Helper()
	signed, err := signing.SignPolicy(content, p, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// TestPolicyVectors verifies files that another program signed.
func TestPolicyVectors(t *testing.T) {
	ada := testKey(t, "ada")
	for name, p := range map[string]signing.Policy{"config.yaml": configOfAda, "allowed_signers.yaml": pinsOfAda} {
		if err := signing.VerifyPolicy(readFile(t, "policy/"+name), p, []signing.PublicStub{publicOf(ada)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVerifyPolicy(t *testing.T) {
	ada, ben := testKey(t, "ada"), testKey(t, "ben")
	file := string(readFile(t, "policy/config.yaml"))
	content, _, _ := signing.Split([]byte(file))
	message := string(sign(t, content, ada))
	other, otherAgent, otherKind := configOfAda, configOfAda, configOfAda
	other.Project, otherAgent.Receiver, otherKind.Kind = "demo2", "ben", signing.AllowedSigners
	all := []signing.PublicStub{publicOf(ada), publicOf(ben)}
	for _, test := range []struct {
		name, file string
		policy     signing.Policy
		keys       []signing.PublicStub
		want       string // empty if the signature is good
	}{
		{"good", file, configOfAda, all, ""},
		{"signed by two", string(signPolicy(t, content, configOfAda, ben, ada)), configOfAda, all, ""},
		{"not signed", string(content), configOfAda, all, "it is not signed"},
		{"changed", strings.Replace(file, "enforce", "off", 1), configOfAda, all, "changed after it was signed"},
		{"of another project", file, other, all, "its project is not demo2"},
		{"of another agent", file, otherAgent, all, "its receiver is not ben"},
		{"of another kind", file, otherKind, all, "its kind is not allowed_signers"},
		{"by a key of another agent", string(signPolicy(t, content, configOfAda, ben)), configOfAda, all, "ada has no such key"},
		{"by an unknown key", file, configOfAda, all[1:], "ada has no such key"},
		{"the signature of a message", message, configOfAda, all, "lacks the member policy"},
		{"with something after it", file + "\n", configOfAda, all, "the last line must be exactly"},
		{"without its line feed", strings.TrimSuffix(file, "\n"), configOfAda, all, "the last line must be exactly"},
	} {
		err := signing.VerifyPolicy([]byte(test.file), test.policy, test.keys)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
	// A policy file never counts as a message.
	if r := signing.Verify([]byte(file), pinsOf(t, ada), senderOf); r.Status != signing.Invalid {
		t.Errorf("as a message, the file is %+v, want invalid", r)
	}
}

func FuzzVerifyPolicy(f *testing.F) {
	f.Add(readFile(f, "policy/config.yaml"))
	f.Add(readFile(f, "policy/allowed_signers.yaml"))
	ada := testKey(f, "ada")
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, p := range []signing.Policy{configOfAda, pinsOfAda} {
			if signing.VerifyPolicy(file, p, []signing.PublicStub{publicOf(ada)}) != nil {
				continue
			}
			if !bytes.Equal(file, readFile(t, "policy/config.yaml")) && !bytes.Equal(file, readFile(t, "policy/allowed_signers.yaml")) {
				t.Fatalf("%q has a good signature", file)
			}
		}
	})
}
