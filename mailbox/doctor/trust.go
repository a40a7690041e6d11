package doctor

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

// trust compares the keys that agents trust with the catalog of who is who, and checks the settings
// for signing.
func (i *inspection) trust() {
	i.category = categoryTrust
	before := len(i.findings)
	pins := make(map[schema.AgentName][]trust.Entry)
	for _, agent := range i.agents {
		if err := trust.CheckSettings(i.w, agent); err != nil {
			i.add("trust-settings-unusable", SeverityError, "under signing:, sign_messages is true or false, and kid the id of a key", "%s cannot send: %v", agent, err)
		}
		if !i.exists(trust.PinsName(agent)) {
			continue
		}
		list, err := trust.Pins(i.w, agent)
		if err != nil {
			i.add("trust-pins-unreadable", SeverityError, "mend it, or move it away and import the keys again", "%s trusts nobody: %v", agent, err)
			continue
		}
		pins[agent] = list
	}
	catalog, usable := i.catalog(len(pins) > 0)
	for _, agent := range i.agents {
		list, there := pins[agent]
		if !there {
			continue
		}
		active := 0
		for _, p := range list {
			if p.Status == trust.Revoked {
				continue
			}
			active++
			if usable && !slices.ContainsFunc(catalog, func(l trust.Entry) bool { return l.KeyID == p.KeyID }) {
				i.add("trust-pin-not-in-catalog", SeverityWarning, "import its public key again with oacp trust import, or remove the pin",
					"%s trusts the key %s of %s, which the catalog does not list", agent, p.KeyID, p.Agent)
			}
		}
		i.add("trust-pins-loaded", SeverityOK, "", "%s has pinned %s, %d active", agent, spelling.Plural(len(list), "key"), active)
		i.unpinned(agent, catalog, list)
	}
	if len(i.findings) == before {
		i.add("trust-root", SeveritySkipped, "oacp key gen and oacp trust import begin to sign", "there are no trust files: messages here are not signed")
	}
}

func (i *inspection) exists(name string) bool {
	_, err := i.w.Root().Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// catalog returns the catalog, and whether it is there and can be used. A missing one matters only if
// there are pins.
func (i *inspection) catalog(pinned bool) (catalog []trust.Entry, usable bool) {
	if !i.exists(trust.CatalogName) {
		if pinned {
			i.add("trust-catalog-absent", SeverityOK, "", "there is no %s", trust.CatalogName)
		}
		return nil, pinned
	}
	catalog, err := trust.Catalog(i.w)
	if err != nil {
		i.add("trust-catalog-unreadable", SeverityError, "mend it, or move it away and import the keys again", "%v", err)
		return nil, false
	}
	i.add("trust-catalog-loaded", SeverityOK, "", "%s lists %s", trust.CatalogName, spelling.Plural(len(catalog), "key"))
	return catalog, true
}

// unpinned reports listed keys that the agent does not trust. That is an error if it reads only what trusted keys
// have signed.
func (i *inspection) unpinned(agent schema.AgentName, catalog, pins []trust.Entry) {
	severity, why := SeverityOK, ""
	if mode, _ := trust.ModeOf(i.w, agent); mode == trust.Enforce {
		severity, why = SeverityError, ", and reads only verified messages"
	}
	for _, l := range catalog {
		if l.Agent != agent && !slices.ContainsFunc(pins, func(p trust.Entry) bool { return p.KeyID == l.KeyID }) {
			i.add("trust-catalog-not-pinned", severity, "oacp trust import FILE --agent "+string(agent)+" pins it, if the agent is to trust it",
				"%s does not trust the key %s of %s%s", agent, l.KeyID, l.Agent, why)
		}
	}
}
