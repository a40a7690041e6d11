package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
)

// Codex keeps in the user's config.toml which hooks the user has reviewed: for each place of a hook,
// the hash of what is there.

// A reviewedHook is what codex hashes, in the order of the names.
type reviewedHook struct {
	Event string          `json:"event_name"`
	Hooks []reviewedEntry `json:"hooks"`
}

type reviewedEntry struct {
	Async   bool   `json:"async"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
	Type    string `json:"type"`
}

// reviews returns what codex keeps for hooks of ours once the user has reviewed them: for the place of
// each the hash. The path is that of their file.
func reviews(path string, all []foundHook) (map[string]string, error) {
	wanted := make(map[string]string)
	for _, f := range all {
		hash, err := reviewHash(snakeCase(f.event), entryFor(f.event, f.command))
		if err != nil {
			return nil, err
		}
		wanted[fmt.Sprintf("%s:%s:%d:%d", path, snakeCase(f.event), f.group, f.at)] = hash
	}
	return wanted, nil
}

func reviewHash(event string, h hookEntry) (string, error) {
	data, err := json.Marshal(reviewedHook{event, []reviewedEntry{{Command: h.Command, Timeout: h.Timeout, Type: h.Type}}})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// snakeCase turns a name such as SessionStart into session_start.
func snakeCase(name string) string {
	var out strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

// codexConfig is what of the user's config.toml matters to hooks.
type codexConfig struct {
	Features map[string]any `toml:"features"`
	Projects map[string]struct {
		TrustLevel string `toml:"trust_level"`
	} `toml:"projects"`
	Hooks struct {
		State map[string]struct {
			TrustedHash string `toml:"trusted_hash"`
			Enabled     *bool  `toml:"enabled"`
		} `toml:"state"`
	} `toml:"hooks"`
}

// trusts reports whether the user trusts a folder, or one above it.
func (c codexConfig) trusts(dir string) bool {
	for {
		if p, ok := c.Projects[dir]; ok {
			return p.TrustLevel == "trusted"
		}
		above := filepath.Dir(dir)
		if above == dir {
			return false
		}
		dir = above
	}
}
