// Package secrets finds keys of well-known formats in text: of clouds, code hosts and model vendors, and private keys.
//
// It knows a key by its prefix, length, alphabet and, where there is one, its checksum. So it finds neither passwords nor
// keys without a prefix, nor keys that are encoded, split or translated.
package secrets

import (
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
)

// An Error reports a key in a text. It does not have the key.
type Error struct {
	// Field says what the text is, and Line is the line of the key, from 1.
	Field string
	Line  int
	// Kind describes the key, such as "a GitHub token".
	Kind string
}

// Error names the field, the line and the kind.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: line %d has what looks like %s", e.Field, e.Line, e.Kind)
}

func (e *Error) Explain() (code, hint string) {
	return "secret", "leave the key out, and revoke it if others have seen it; send and reply have --allow-secret"
}

// Check returns an *Error about the first key in a text, which the field names.
func Check(field, text string) error {
	if start, _, kind := find(text, 0); kind != "" {
		return &Error{field, 1 + strings.Count(text[:start], "\n"), kind}
	}
	return nil
}

// Redact returns the text with each key replaced by its kind in brackets.
func Redact(text string) string {
	var kept strings.Builder
	for from := 0; ; {
		start, end, kind := find(text, from)
		if kind == "" {
			return kept.String() + text[from:]
		}
		kept.WriteString(text[from:start] + "[" + kind + "]")
		from = end
	}
}

// find returns where the first key from an offset is, and its kind, which is empty if there is none.
func find(text string, from int) (start, end int, kind string) {
	known := byFirstByte()
	for i := from; i < len(text); i++ {
		candidates := known[text[i]]
		if len(candidates) == 0 || !mayBegin(text, i) {
			continue
		}
		for _, c := range candidates {
			rest, found := strings.CutPrefix(text[i:], c.prefix)
			if !found {
				continue
			}
			if n := c.length(rest); n > 0 {
				return i, i + len(c.prefix) + n, c.kind
			}
		}
	}
	return 0, 0, ""
}

// mayBegin reports whether a key may begin at an offset: it does not begin in the middle of a word. An escaped character,
// such as %3D or \n, is no part of a word, nor is what colors a terminal, such as ESC [31m, escaped or not.
func mayBegin(text string, i int) bool {
	return i == 0 || endsColor(text[:i]) || !alphanumeric(text[i-1]) || !alphanumeric(text[i]) || i >= 2 && text[i-2] == '\\' ||
		i >= 3 && text[i-3] == '%' && hexadecimal(text[i-2]|0x20) && hexadecimal(text[i-1]|0x20)
}

// endsColor reports whether a text ends like a control sequence of a terminal: "[", parameters and a letter, or ESC, "(" and a
// letter.
func endsColor(text string) bool {
	before := strings.TrimRight(text[max(0, len(text)-40):len(text)-1], "0123456789;:")
	return strings.HasSuffix(before, "[") || strings.HasSuffix(before, "\x1b(")
}

// A format is that of a kind of keys: one of the prefixes, with spaces between them, and then least to most characters of
// an alphabet. The longest key bounds the time that a prefix can cost.
type format struct {
	kind, prefixes string
	alphabet       func(byte) bool
	least, most    int
	// check, if not nil, says whether the characters after the prefix can be those of a key.
	check func(string) bool
}

var formats = []format{
	{"an AWS access key", "AKIA ASIA", base32, 16, 16, func(key string) bool { return !strings.HasSuffix(key, "EXAMPLE") }},
	{"a Google API key", "AIza", base64URL, 35, 35, nil},
	{"a Google client secret", "GOCSPX-", base64URL, 28, 28, nil},
	{"an Azure storage key", "AccountKey=", base64, 86, 86, nil},
	{"a DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", hexadecimal, 64, 64, nil},
	{"a GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", alphanumeric, 36, 36, hasChecksum},
	{"a GitHub token", "github_pat_", base64URL, 82, 82, nil},
	{"a GitLab token", "glpat- gldt- glrt- glptt- glcbt- gloas-", base64URL, 20, 300, nil},
	{"an Atlassian token", "ATATT3xFfG ATCTT3xFfG ATBB", base64URL, 32, 300, nil},
	{"a package registry token", "npm_", alphanumeric, 36, 36, hasChecksum},
	{"a package registry token", "pypi-AgE", base64URL, 80, 300, nil},
	{"a Docker token", "dckr_pat_ dckr_oat_", base64URL, 27, 64, nil},
	{"an Anthropic key", "sk-ant-", base64URL, 80, 200, nil},
	{"an OpenAI key", "sk-", base64URL, 40, 200, func(key string) bool { return strings.Contains(key, "T3BlbkFJ") }},
	{"an OpenRouter key", "sk-or-v1-", hexadecimal, 64, 64, nil},
	{"a model vendor's key", "sk-", hexadecimal, 32, 32, nil}, // DeepSeek, Qwen
	{"a Groq key", "gsk_", alphanumeric, 52, 52, nil},
	{"an xAI key", "xai-", alphanumeric, 80, 80, nil},
	{"a Perplexity key", "pplx-", alphanumeric, 48, 48, nil},
	{"a Replicate token", "r8_", alphanumeric, 37, 37, nil},
	{"a Hugging Face token", "hf_", alphanumeric, 34, 34, nil},
	{"a Slack token", "xoxb- xoxp- xoxa- xoxr- xoxs- xapp-", base64URL, 40, 300, nil},
	{"a Stripe key", "sk_live_ rk_live_", alphanumeric, 24, 250, nil},
	{"an age key", "AGE-SECRET-KEY-1", uppercase, 58, 58, nil},
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
func uppercase(c byte) bool   { return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' }
func base32(c byte) bool      { return '2' <= c && c <= '7' || 'A' <= c && c <= 'Z' }
func hexadecimal(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
func base64(c byte) bool      { return alphanumeric(c) || c == '+' || c == '/' }
func base64URL(c byte) bool   { return alphanumeric(c) || c == '-' || c == '_' }

// A candidate is a prefix of keys.
type candidate struct {
	prefix, kind string
	// length returns how many bytes of a text after the prefix belong to the key; 0 if there is no key.
	length func(rest string) int
}

// byFirstByte returns the candidates by the first bytes of their prefixes.
var byFirstByte = sync.OnceValue(func() (known [256][]candidate) {
	add := func(prefix, kind string, length func(string) int) {
		known[prefix[0]] = append(known[prefix[0]], candidate{prefix, kind, length})
	}
	add("-----BEGIN ", "a private key", privateKey)
	for _, f := range formats {
		for prefix := range strings.SplitSeq(f.prefixes, " ") {
			add(prefix, f.kind, f.length)
		}
	}
	return known
})

func (f *format) length(rest string) int {
	n := run(rest, f.most+1, f.alphabet)
	if n < f.least || n > f.most || !looksRandom(rest[:n]) || f.check != nil && !f.check(rest[:n]) {
		return 0
	}
	return n
}

// run returns how many bytes at the beginning of a text are in the alphabet, at most so many.
func run(text string, most int, alphabet func(byte) bool) int {
	n := 0
	for n < min(len(text), most) && alphabet(text[n]) {
		n++
	}
	return n
}

// looksRandom reports whether a text may be that of a key, and not a placeholder such as xxxxxx or your-token-here.
func looksRandom(key string) bool {
	var seen [256]bool
	count := 0
	lower, other := false, false
	for i := range len(key) {
		if c := key[i]; !seen[c] {
			seen[c] = true
			count++
			lower = lower || 'a' <= c && c <= 'z'
			other = other || uppercase(c)
		}
	}
	return count >= max(6, len(key)/8) && (other || !lower)
}

// hasChecksum reports whether the last six characters are the CRC-32 of the others, in base 62.
func hasChecksum(key string) bool {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	split := len(key) - 6
	sum := crc32.ChecksumIEEE([]byte(key[:split]))
	for i := len(key) - 1; i >= split; i-- {
		if key[i] != digits[sum%62] {
			return false
		}
		sum /= 62
	}
	return true
}

// privateKey returns the length of a private key in the form of PEM after its first word. It needs at least some of the
// key, so a text can name the form. There may be anything between the lines, such as escapes and indentation.
func privateKey(rest string) int {
	const (
		longestLabel  = 40
		longestHeader = 1000
		longestKey    = 20_000
		shortestLine  = 40
		dashes        = "-----"
	)
	label, after, found := strings.Cut(rest[:min(len(rest), longestLabel+longestHeader)], dashes)
	if !found || len(label) > longestLabel || !strings.HasSuffix(strings.TrimSuffix(label, " BLOCK"), "PRIVATE KEY") {
		return 0
	}
	header, _, _ := strings.Cut(after, dashes)
	for i := 0; i < len(header); i++ {
		n := run(header[i:], len(header), base64)
		if n >= shortestLine {
			begin := len(label) + len(dashes) + i + n
			limited := rest[begin:min(len(rest), begin+longestKey)]
			_, after, _ := strings.Cut(limited, dashes+"END")
			_, after, _ = strings.Cut(after, dashes)
			return begin + len(limited) - len(after) // without an end, all the rest may be the key
		}
		i += n
	}
	return 0
}
