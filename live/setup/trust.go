package setup

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Codex keeps in the user's config.toml which hooks the user has reviewed: for each place of a hook, the
// hash of the hook.

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

// codexDisabled returns why codex does not run hooks.
func (f found) codexDisabled(config string) (problems []string) {
	path := filepath.Join(config, "config.toml")
	var settings codexConfig
	data, err := readFile(path)
	if err == nil {
		err = toml.Unmarshal(data, &settings)
	}
	if err != nil {
		return []string{path + ": " + err.Error()}
	}
	if settings.Features["hooks"] == false {
		problems = append(problems, "features.hooks in "+path+" switches hooks off")
	}
	if f.Scope == Project && !settings.trusts(f.Dir) {
		problems = append(problems, "codex does not read the settings of "+f.Dir+" until you trust the folder, for which it asks when it starts there")
	}
	wanted, missing := reviews(f.hooksPath, f.hooks), 0
	for place, hash := range wanted {
		state := settings.Hooks.State[place]
		if state.TrustedHash != hash {
			missing++
		}
		if state.Enabled != nil && !*state.Enabled {
			problems = append(problems, "the hook "+place+" is switched off in "+path)
		}
	}
	if missing > 0 {
		problems = append(problems, fmt.Sprintf("%d of %d hooks wait for your review, for which codex asks when it starts or at the first prompt", missing, len(wanted)))
	}
	slices.Sort(problems)
	return problems
}
