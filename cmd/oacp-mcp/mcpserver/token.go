package mcpserver

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
)

// minToken is the shortest token in characters that a caller may choose.
const minToken = 16

// NewToken returns a token nobody can guess: 26 letters and digits with at least 128 random bits.
func NewToken() string { return rand.Text() }

// checkToken refuses tokens that are easily guessed or do not fit into a header.
func checkToken(token string) error {
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return errors.New("the token holds a character that is no visible ASCII character")
		}
	}
	if len(token) < minToken {
		return fmt.Errorf("the token has %d characters, and needs at least %d", len(token), minToken)
	}
	return nil
}

// sameToken compares in a time that tells nothing about the token.
func sameToken(given, token string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
