package validate

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/oacp-go/oacp/schema"
)

// Classes of bytes, as bits.
const (
	// A rare byte may begin a character that YAML forbids or treats specially.
	rareByte = 1 << iota
	tabByte
	returnByte
	forbiddenByte
)

var byteClasses = func() (classes [256]uint8) {
	for b := range 0x20 {
		classes[b] = forbiddenByte
	}
	classes[0x7f] = forbiddenByte
	classes['\n'] = 0
	classes['\t'] = tabByte
	classes['\r'] = returnByte
	classes[0xc2], classes[0xe2], classes[0xef] = rareByte, rareByte, rareByte
	return classes
}()

// checkSource checks the bytes of a file before a parser sees them. It returns the text without a
// byte order mark, and whether it is plain: all YAML readers agree on its characters and lines.
func checkSource(data []byte) (text string, plain bool, problem *Diagnostic) {
	if len(data) > schema.MaxFileSize {
		return "", false, tooLarge()
	}
	if !utf8.Valid(data) {
		return "", false, encodingProblem(data)
	}
	text = string(bytes.TrimPrefix(data, []byte("\ufeff")))
	var seen uint8
	for i := range len(text) {
		seen |= byteClasses[text[i]]
	}
	plain = seen&^tabByte == 0
	if seen&(rareByte|forbiddenByte) != 0 {
		special := strings.IndexFunc(text, isForbidden)
		if special >= 0 {
			return "", false, controlProblem(text, special)
		}
		plain = seen&returnByte == 0 && !strings.ContainsFunc(text, isSpecial)
	}
	return text, plain, nil
}

func tooLarge() *Diagnostic {
	return sourceProblem(nil, RuleFileSize, fmt.Sprintf("the file is larger than %d bytes", schema.MaxFileSize),
		"put large content in a file of its own and name that file in the message")
}

// isForbidden reports whether a YAML file must not contain the raw character.
func isForbidden(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == '\u0085':
		return false
	}
	return r < 0x20 || 0x7f <= r && r <= 0x9f || r == '\ufffe' || r == '\uffff'
}

// isSpecial reports whether some YAML readers take the character for a line break or byte order
// mark.
func isSpecial(r rune) bool {
	return r == '\u0085' || r == '\u2028' || r == '\u2029' || r == '\ufeff'
}

func encodingProblem(data []byte) *Diagnostic {
	valid := 0
	for valid < len(data) {
		r, size := utf8.DecodeRune(data[valid:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		valid += size
	}
	message := fmt.Sprintf("the byte %#02x is not UTF-8", data[valid])
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		message = "the file is UTF-16, not UTF-8"
	}
	return sourceProblem(data[:valid], ruleEncoding, message, "save the file as UTF-8")
}

func controlProblem(text string, at int) *Diagnostic {
	r, _ := utf8.DecodeRuneInString(text[at:])
	if r == 0 && at <= 1 && strings.Trim(text, "\x00") != "" {
		return sourceProblem([]byte(text[:at]), ruleEncoding, "the file is UTF-16, not UTF-8", "save the file as UTF-8")
	}
	return sourceProblem([]byte(text[:at]), ruleControlCharacter, fmt.Sprintf("a YAML file cannot contain the control character %U", r),
		fmt.Sprintf(`write \u%04x inside double quotes, or leave it out`, r))
}

// sourceProblem returns a diagnostic at the character after the given part of the file.
func sourceProblem(before []byte, rule Rule, message, fix string) *Diagnostic {
	line, column := position(string(bytes.TrimPrefix(before, []byte("\ufeff"))))
	return &Diagnostic{Line: line, Column: column, Rule: rule, Severity: Error, Message: message, Fix: fix}
}

// position returns the line and column of the character after the text.
func position(before string) (line, column int) {
	last := strings.LastIndexByte(before, '\n')
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[last+1:]) + 1
}
