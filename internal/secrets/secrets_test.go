package secrets

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
)

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// random returns random characters of an alphabet. Keys are made when the tests run, so that the files have none.
func random(n int, alphabet func(byte) bool) string {
	var text []byte
	for len(text) < n {
		if c := byte(rand.N(128)); alphabet(c) {
			text = append(text, c)
		}
	}
	return string(text)
}

// withChecksum adds the checksum of GitHub's tokens.
func withChecksum(text string) string {
	sum, digits := crc32.ChecksumIEEE([]byte(text)), ""
	for range 6 {
		digits = letters[sum%62:sum%62+1] + digits
		sum /= 62
	}
	return text + digits
}

// keyOf returns a key of a format.
func keyOf(f *format, prefix string) string {
	for {
		rest := random(f.least, f.alphabet)
		switch f.kind {
		case "a GitHub token", "a package registry token":
			if f.check != nil {
				rest = withChecksum(rest[:30])
			}
		case "an OpenAI key":
			rest = rest[:20] + "T3Blbk" + "FJ" + rest[20:]
		}
		if looksRandom(rest) && !strings.HasPrefix(rest, "-") {
			return prefix + rest
		}
	}
}

func pem(label string) string {
	line := random(64, base64) + "\n"
	return "-----BEGIN " + label + "-----\n" + line + line + random(20, base64) + "=\n-----END " + label + "-----"
}

// TestFormats checks that each format is found wherever it is, with its kind and line, and that the error does not have
// the key.
func TestFormats(t *testing.T) {
	type example struct{ key, kind string }
	var examples []example
	for i := range formats {
		for prefix := range strings.SplitSeq(formats[i].prefixes, " ") {
			examples = append(examples, example{keyOf(&formats[i], prefix), formats[i].kind})
		}
	}
	for _, label := range []string{"PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK"} {
		examples = append(examples, example{pem(label), "a private key"})
	}
	rsa := pem("RSA PRIVATE KEY")
	header := "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0011\n\n"
	examples = append(examples,
		example{strings.Replace(rsa, "RSA PRIVATE KEY-----\n", header, 1), "a private key"},
		example{strings.ReplaceAll(rsa, "\n", `\n`), "a private key"},
		example{strings.ReplaceAll(rsa, "\n", "\n    "), "a private key"},
		example{strings.ReplaceAll(rsa, "\n", "\n> "), "a private key"})
	for _, e := range examples {
		for _, around := range []string{
			"%s", "first\nthe key is %s.", "a\nhttps://user:%s@example.com/x", "a\nhttps://example.com/?key=%s&more=1", "\n?a%%3D%s",
			"\n\tkey := \"%s\"", `{"a":` + "\n" + `"\n%s\n"}`, "é\n%s é", "red: \x1b[31m%s\x1b[0m", "\x1b[m%s", "\x1b[38;5;196m%s", "\x1b(B%s",
			`"\u001b[1;31m%s\u001b[0m"`,
		} {
			text := fmt.Sprintf(around, e.key)
			line := 1 + strings.Count(around, "\n")
			if strings.HasPrefix(around, `{`) {
				line = 2
			}
			found, ok := errors.AsType[*Error](Check("body", text))
			if !ok || found.Kind != e.kind || found.Line != line {
				t.Errorf("%q: found %v, want %s in line %d", text, found, e.kind, line)
				continue
			}
			if message := found.Error(); strings.Contains(message, e.key) || message != fmt.Sprintf("body: line %d has what looks like %s", line, e.kind) {
				t.Errorf("the error is %q", message)
			}
			redacted := Redact(text)
			if want := strings.Replace(text, e.key, "["+e.kind+"]", 1); redacted != want {
				t.Errorf("redacted %q is %q, want %q", text, redacted, want)
			}
		}
	}
}

// TestPublishedToken checks the checksum with the token that GitHub's documentation shows.
func TestPublishedToken(t *testing.T) {
	if !hasChecksum("zQWBuTSOoRi4A9spHcVY" + "5ncnsDkxkJ" + "0mLq17") {
		t.Error("its checksum is wrong")
	}
}

// TestNoKeys checks text that resembles keys.
func TestNoKeys(t *testing.T) {
	hex := random(64, hexadecimal)
	texts := map[string]string{
		"hash":                  "sha256:" + hex + " sk" + hex,
		"ids":                   "msg-20260313T1430Z-claude-" + random(16, alphanumeric) + " conv-20260313-claude-000001",
		"uuid":                  "123e4567-e89b-12d3-a456-426614174000",
		"name of a task":        "task-" + hex[:32] + " risk-" + hex[:32] + " desk-ant-" + random(100, base64URL),
		"AWS's example":         "AKIA" + "IOSFODNN7" + "EXAMPLE",
		"placeholder":           "ghp_" + strings.Repeat("x", 36) + " sk-ant-api03-" + strings.Repeat("X", 90) + " AIza" + strings.Repeat("0", 35),
		"placeholder of words":  "glpat-your-gitlab-token-goes-here and xoxb-put-the-token-of-your-slack-bot-in-here",
		"GitHub, bad checksum":  "ghp_" + strings.Repeat("aB3dE6", 6),
		"too short":             "AKIA" + random(15, base32) + " AIza" + random(34, base64URL),
		"too long":              "AKIA" + random(17, base32) + " gsk_" + random(53, alphanumeric),
		"in a word":             "XAKIA" + random(16, base32) + " myAIza" + random(35, base64URL),
		"name of a PEM block":   "-----BEGIN PRIVATE KEY----- and -----END PRIVATE KEY----- enclose it",
		"PEM without a key":     "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----\n" + random(64, base64),
		"certificate":           pem("CERTIFICATE"),
		"public key":            pem("PUBLIC KEY"),
		"ssh public key":        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + random(43, base64) + " ann@example.com",
		"regular expressions":   "AKIA[A-Z0-9]{16} ghp_[A-Za-z0-9]{36} -----BEGIN [A-Z ]*PRIVATE KEY-----",
		"commit and branch":     "commit " + hex[:40] + " (origin/fix-sk-rounding)",
		"only the prefixes":     "AKIA ghp_ sk-ant- sk- npm_ glpat- -----BEGIN ",
		"end inside the prefix": "sk-an",
	}
	for name, text := range texts {
		if err := Check("body", text); err != nil {
			t.Errorf("%s: %v in %q", name, err, text)
		}
		if Redact(text) != text {
			t.Errorf("%s: %q is redacted", name, text)
		}
	}
}

// TestRandomText checks that signatures, hashes and other random text hold no keys.
func TestRandomText(t *testing.T) {
	for range 200 {
		for _, alphabet := range []func(byte) bool{base64, base64URL, hexadecimal, base32, alphanumeric} {
			text := random(5000, alphabet)
			if err := Check("body", "auth: \""+text+"\""); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("-----BEGIN PRIVATE KEY-----\nMII\n-----END")
	f.Add("%3DAKIA sk-sk-sk-ant-")
	f.Add(keyOf(&formats[0], "AKIA") + pem("PRIVATE KEY"))
	f.Fuzz(func(t *testing.T, text string) {
		redacted := Redact(text)
		if err := Check("body", text); (err == nil) != (redacted == text) {
			t.Errorf("%v, but redacted is %q", err, redacted)
		}
		if err := Check("body", redacted); err != nil {
			t.Errorf("redacted %q: %v", redacted, err)
		}
	})
}

// bodies have a megabyte of prose, and of text that costs most.
func bodies() map[string]string {
	const size = 1 << 20
	fill := func(part string) string { return strings.Repeat(part, size/len(part)) }
	return map[string]string{
		"prose":    fill("The quick brown fox jumps over the lazy dog, and sk is skipped.\n"),
		"prefixes": fill("sk-"),
		"blocks":   fill("-----BEGIN PRIVATE KEY-----"),
		"dashes":   fill("-----BEGIN "),
		"base64":   random(size, base64),
	}
}

// TestLinear counts the comparisons of a byte with an alphabet: there are at most so many for each byte.
func TestLinear(t *testing.T) {
	steps := 0
	for i, f := range formats {
		alphabet := f.alphabet
		formats[i].alphabet = func(c byte) bool { steps++; return alphabet(c) }
		defer func() { formats[i].alphabet = alphabet }()
	}
	for name, text := range bodies() {
		steps = 0
		_ = Check("body", text)
		const most = 150 // the formats of one prefix, with the longest keys
		if steps > most*len(text) {
			t.Errorf("%s: %d steps for %d bytes", name, steps, len(text))
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	for name, text := range bodies() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_ = Check("body", text)
			}
		})
	}
}
