package signing_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// TestSignedFiles checks that signing gives the bytes in testdata, which the reference
// implementation has verified.
func TestSignedFiles(t *testing.T) {
	ada, ben := testKey(t, "ada"), testKey(t, "ben")
	for name, keys := range map[string][]*signing.Key{"one.yaml": {ada}, "two.yaml": {ben, ada}} {
		got := sign(t, readFile(t, "plain.yaml"), keys...)
		if *update {
			if err := os.WriteFile("testdata/"+name, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want := readFile(t, name); !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestVerify changes a signed file in one place each.
func TestVerify(t *testing.T) {
	ada, ben, cleo := testKey(t, "ada"), testKey(t, "ben"), testKey(t, "cleo")
	plain, one, two := string(readFile(t, "plain.yaml")), string(readFile(t, "one.yaml")), string(readFile(t, "two.yaml"))
	pins := pinsOf(t, ada, ben)
	pins[cleo.ID] = signing.Pin{Agent: "cleo", Revoked: true}
	delete(pins, testKey(t, "dora").ID)
	fromCleo := strings.Replace(plain, "from: ada", "from: cleo", 1)
	fromBen := strings.Replace(plain, "from: ada", "from: ben", 1)
	for _, test := range []struct {
		name, file string
		status     signing.Status
		outcomes   string
	}{
		{"unsigned", plain, signing.Unsigned, ""},
		{"empty", "", signing.Unsigned, ""},
		{"signed", one, signing.Verified, "verified"},
		{"signed by the sender and another", two, signing.Verified, "identity_mismatch verified"},
		{"signed by an unknown key", string(sign(t, []byte(plain), testKey(t, "dora"))), signing.Untrusted, "unknown_kid"},
		{"signed by an unknown key and the sender", string(sign(t, []byte(plain), testKey(t, "dora"), ada)), signing.Verified, "unknown_kid verified"},
		{"signed by a revoked key", string(sign(t, []byte(fromCleo), cleo)), signing.Revoked, "revoked"},
		{"signed by a revoked and an unknown key", string(sign(t, []byte(fromCleo), testKey(t, "dora"), cleo)), signing.Revoked, "unknown_kid revoked"},
		{"signed by another agent only", string(sign(t, []byte(fromBen), ada)), signing.Invalid, "identity_mismatch"},
		{"another character in the body", strings.Replace(one, "Whatever", "whatever", 1), signing.Invalid, "bad_signature"},
		{"another sender", strings.Replace(one, "from: ada", "from: ben", 1), signing.Invalid, "bad_signature"},
		{"a space more at the end of a line", strings.Replace(one, "ada\n", "ada \n", 1), signing.Invalid, "bad_signature"},
		{"CRLF before the trailer", strings.ReplaceAll(plain, "\n", "\r\n") + strings.TrimPrefix(one, plain), signing.Invalid, "bad_signature"},
		{"the trailer of another message", fromBen + strings.TrimPrefix(one, plain), signing.Invalid, "bad_signature"},
		{"only a trailer", strings.TrimPrefix(one, plain), signing.Invalid, "bad_signature"},
		{"no last line feed", strings.TrimSuffix(one, "\n"), signing.Invalid, ""},
		{"two last line feeds", one + "\n", signing.Invalid, ""},
		{"CRLF after the trailer", strings.TrimSuffix(one, "\n") + "\r\n", signing.Invalid, ""},
		{"a space after the trailer", strings.TrimSuffix(one, "\n") + " \n", signing.Invalid, ""},
		{"a trailer without quotes", strings.NewReplacer("\nauth: \"", "\nauth: ", "\"\n", "\n").Replace(one), signing.Invalid, ""},
		{"a trailer with padding", strings.TrimSuffix(one, "\"\n") + "=\"\n", signing.Invalid, ""},
		{"an indented trailer", strings.Replace(one, "\nauth: \"ey", "\n  auth: \"ey", 1), signing.Unsigned, ""},
		{"a trailer in the middle", one + "channel: x\n", signing.Unsigned, ""},
		{"too large", strings.Repeat("a", schema.MaxFileSize+1), signing.Invalid, ""},
	} {
		r := signing.Verify([]byte(test.file), pins, senderOf)
		var outcomes []string
		for _, c := range r.Checked {
			outcomes = append(outcomes, c.Outcome)
		}
		if got := strings.Join(outcomes, " "); r.Status != test.status || got != test.outcomes {
			t.Errorf("%s: %s (%s), signatures %q; want %s, %q", test.name, r.Status, r.Reason, got, test.status, test.outcomes)
		}
		if (r.Reason == "") != (r.Status == signing.Verified || r.Status == signing.Unsigned) || (r.Signature != nil) != (r.Status == signing.Verified) {
			t.Errorf("%s: reason %q, signature %v", test.name, r.Reason, r.Signature)
		}
	}
}

func TestVerifyUsesTheKeyOfTheAgent(t *testing.T) {
	ada, ben := testKey(t, "ada"), testKey(t, "ben")
	pins := pinsOf(t, ada)
	pin := pins[ada.ID]
	pin.Agent = "ben"
	pins[ada.ID] = pin
	r := signing.Verify(readFile(t, "one.yaml"), pins, senderOf)
	if r.Status != signing.Invalid || r.Checked[0].Outcome != "pin_agent_mismatch" {
		t.Errorf("got %+v", r)
	}
	// The id of one key over the bytes of another.
	pins = pinsOf(t, ada, ben)
	pins[ada.ID] = signing.Pin{Agent: "ada", Key: pins[ben.ID].Key}
	if r := signing.Verify(readFile(t, "one.yaml"), pins, senderOf); r.Status != signing.Invalid {
		t.Errorf("got %+v", r)
	}
}

// TestParse checks the form of a trailer's value: each case changes the JSON of a good one.
func TestParse(t *testing.T) {
	_, auth, err := signing.Split(readFile(t, "one.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	container := decode(t, auth)
	_, protected, _ := strings.Cut(container, `"protected":"`)
	protected, _, _ = strings.Cut(protected, `"`)
	header := decode(t, protected)
	inContainer := func(old, new string) string { return encode(replace(t, container, old, new)) }
	inHeader := func(old, new string) string {
		return encode(strings.Replace(container, protected, encode(replace(t, header, old, new)), 1))
	}
	entry := strings.TrimSuffix(strings.TrimPrefix(container, `{"signatures":[`), "]}")
	for name, auth := range map[string]string{
		"good":                         auth,
		"a header in another order":    inHeader(header, strings.Replace(strings.TrimSuffix(header, "}"), `{"alg":"EdDSA",`, "{", 1)+`,"alg":"EdDSA"}`),
		"a UUID without hyphens":       inHeader("0a4e7a62-6f4b-4c1e-9d7c-5d1c0a9b8e01", "0A4E7A626F4B4C1E9D7C5D1C0A9B8E01"),
		"eight signatures":             encode(`{"signatures":[` + strings.Repeat(entry+",", 7) + entry + "]}"),
		"a header with an escape":      inHeader("EdDSA", `\u0045dDSA`),
		"a header with white space":    inHeader(`"alg":`, `"alg" : `),
		"a header in another spelling": encode(strings.Replace(container, protected, alias(protected), 1)),
	} {
		if _, err := signing.Parse(auth); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, auth := range map[string]string{
		"empty":                           "",
		"not base64url":                   "a+b",
		"padding":                         auth + "=",
		"a line feed":                     auth[:8] + "\n" + auth[8:],
		"another spelling":                alias(auth),
		"too long":                        strings.Repeat("a", 16_384+1),
		"not JSON":                        encode("{"),
		"a list":                          encode("[]"),
		"not UTF-8":                       encode("{\"\xff\":1}"),
		"null":                            encode("null"),
		"no signatures":                   inContainer("["+entry+"]", "[]"),
		"signatures null":                 inContainer("["+entry+"]", "null"),
		"nine signatures":                 encode(`{"signatures":[` + strings.Repeat(entry+",", 8) + entry + "]}"),
		"a payload":                       inContainer(`{"signatures"`, `{"payload":"","signatures"`),
		"an unprotected header":           inContainer(`{"protected"`, `{"header":{},"protected"`),
		"a member twice":                  inContainer(`{"protected"`, `{"protected":"","protected"`),
		"another case":                    inContainer(`"protected"`, `"Protected"`),
		"a space":                         inContainer(`{"signatures"`, `{ "signatures"`),
		"more after the end":              encode(container + " "),
		"two values":                      encode(container + "{}"),
		"an escape in a name":             inContainer(`"signatures"`, `"\u0073ignatures"`),
		"a signature that is not text":    inContainer(entry, strings.Replace(entry, `"signature":"`, `"signature":1,"x":"`, 1)),
		"a signature in another spelling": encode(aliasSignature(container)),
		"a header that is not text":       inContainer(`"`+protected+`"`, "1"),
		"a header that is not JSON":       inHeader(header, "{"),
		"a header that is too long":       inHeader(`"alg"`, strings.Repeat(" ", 4096)+`"alg"`),
		"another algorithm":               inHeader("EdDSA", "none"),
		"another type":                    inHeader("oacp-message+yaml", "JWT"),
		"another scheme":                  inHeader("raw-prefix-v1", "raw-prefix-v2"),
		"another domain":                  inHeader("urn:oacp:message:v1", "urn:oacp:message:v2"),
		"a key":                           inHeader(`{"alg"`, `{"jwk":{},"alg"`),
		"a header member twice":           inHeader(`{"alg"`, `{"alg":"EdDSA","alg"`),
		"a header member in another case": inHeader(`"alg"`, `"ALG"`),
		"an oacp member twice":            inHeader(`"scheme"`, `"scheme":"raw-prefix-v1","scheme"`),
		"no kid":                          inHeader(`"kid":"`+string(testKey(t, "ada").ID)+`",`, ""),
		"a long kid":                      inHeader(`"kid":"`, `"kid":"x`),
		"a kid in another spelling":       inHeader(string(testKey(t, "ada").ID), alias(string(testKey(t, "ada").ID))),
		"crit without oacp":               inHeader(`["oacp"]`, `[]`),
		"more in crit":                    inHeader(`["oacp"]`, `["oacp","b64"]`),
		"crit is a text":                  inHeader(`["oacp"]`, `"oacp"`),
		"oacp is a text":                  inHeader(`"oacp":{`, `"oacp":"","x":{`),
		"an agent without a domain":       inHeader("urn:oacp:agent:0a4e7a62-6f4b-4c1e-9d7c-5d1c0a9b8e01:", "urn:oacp:agent:"),
		"an agent that is not a name":     inHeader(":ada", ":../ada"),
		"a domain that is not a UUID":     inHeader("0a4e7a62", "ga4e7a62"),
		"a machine that is not a UUID":    inHeader("urn:uuid:7b1d2c3e", "urn:uuid:7b1d2c3"),
	} {
		_, err := signing.Parse(auth)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func decode(t *testing.T, text string) string {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// replace replaces what must be there.
func replace(t *testing.T, text, old, new string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("%q is not in %q", old, text)
	}
	return strings.Replace(text, old, new, 1)
}

// alias returns another text that decodes to the same bytes. For a text without spare bits it
// returns one that does not decode at all.
func alias(text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	if len(text)%4 == 0 {
		return text + "A"
	}
	last := strings.IndexByte(alphabet, text[len(text)-1])
	return text[:len(text)-1] + string(alphabet[last|1])
}

// aliasSignature spells the last signature of a container in another way.
func aliasSignature(container string) string {
	start := strings.LastIndex(container, `"signature":"`) + len(`"signature":"`)
	value := strings.TrimSuffix(container[start:], `"}]}`)
	return container[:start] + alias(value) + `"}]}`
}

func TestSignRefuses(t *testing.T) {
	ada := testKey(t, "ada")
	for name, test := range map[string]struct {
		file []byte
		keys []*signing.Key
	}{
		"a signed message":            {readFile(t, "one.yaml"), []*signing.Key{ada}},
		"a message without line feed": {[]byte("a: b"), []*signing.Key{ada}},
		"nothing":                     {nil, []*signing.Key{ada}},
		"no key":                      {readFile(t, "plain.yaml"), nil},
		"nine keys":                   {readFile(t, "plain.yaml"), slices.Repeat([]*signing.Key{ada}, 9)},
	} {
		if signed, err := signing.Sign(test.file, test.keys...); err == nil {
			t.Errorf("%s: no error, but %q", name, signed)
		}
	}
}

// TestSignLeavesTheFileAlone checks that Sign does not write into the memory behind the message.
func TestSignLeavesTheFileAlone(t *testing.T) {
	memory := append(make([]byte, 0, 1<<16), "a: b\n"...)
	sign(t, memory, testKey(t, "ada"))
	if rest := memory[:64]; bytes.Contains(rest[5:], []byte("auth")) {
		t.Errorf("got %q", rest)
	}
}

// FuzzParse checks that Parse takes what it accepts apart and refuses other spellings of it.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"one.yaml", "two.yaml"} {
		_, auth, _ := signing.Split(readFile(f, name))
		data, _ := base64.RawURLEncoding.DecodeString(auth)
		f.Add(data)
	}
	f.Add([]byte(`{"signatures":[{"protected":"e30","signature":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		auth := base64.RawURLEncoding.EncodeToString(data)
		signatures, err := signing.Parse(auth)
		if err != nil {
			return
		}
		if len(signatures) == 0 || len(signatures) > 8 {
			t.Fatalf("%q: %d signatures", data, len(signatures))
		}
		for _, s := range signatures {
			if !s.AgentName().Valid() || len(s.KeyID) != 43 || !strings.HasPrefix(s.Instance, "urn:uuid:") {
				t.Fatalf("%q: %+v", data, s)
			}
		}
		if _, err := signing.Parse(base64.RawURLEncoding.EncodeToString(append(data, ' '))); err == nil {
			t.Fatalf("%q: accepted with a space, too", data)
		}
		file := fmt.Appendf(nil, "from: ada\nauth: \"%s\"\n", auth)
		if r := signing.Verify(file, nil, senderOf); r.Status != signing.Untrusted || len(r.Checked) != len(signatures) {
			t.Fatalf("%q: %+v", data, r)
		}
	})
}

// FuzzSplit checks that a file is the signed bytes and the trailer, or has none.
func FuzzSplit(f *testing.F) {
	f.Add(readFile(f, "one.yaml"))
	f.Add([]byte("auth: \"a\"\n"))
	f.Add([]byte("auth:\n\n \r\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		signed, auth, err := signing.Split(file)
		again := string(signed)
		if auth != "" {
			again += "auth: \"" + auth + "\"\n"
		}
		if again != string(file) || err != nil && auth != "" {
			t.Fatalf("%q: %q, %q, %v", file, signed, auth, err)
		}
	})
}
