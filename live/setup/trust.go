package setup

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Codex keeps in the user's config.toml which hooks the user has reviewed: for each place of a hook,
// the hash of what is there.

// reviews returns what codex keeps for hooks of ours once the user has reviewed them: for the place of
// each the hash. The path is that of their file.
func reviews(path string, all []foundHook) map[string]string {
	wanted, upper := make(map[string]string), regexp.MustCompile(`\B[A-Z]`)
	for _, f := range all {
		event := strings.ToLower(upper.ReplaceAllString(f.event, "_$0"))
		entry := entryFor(f.event, f.command)
		hashed := encode(map[string]any{"event_name": event, "hooks": []any{
			map[string]any{"async": false, "command": entry.Command, "timeout": entry.Timeout, "type": entry.Type},
		}}, "", "")
		wanted[fmt.Sprintf("%s:%s:%d:%d", path, event, f.group, f.at)] = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(hashed)))
	}
	return wanted
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
