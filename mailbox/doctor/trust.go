package doctor

import (
	"slices"

	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox/trust"
	"github.com/oacp-go/oacp/schema"
)

// trust checks the settings for signing, the keys that agents trust, and the catalog of who is who.
func (i *inspection) trust() {
	i.category = categoryTrust
	before := len(i.findings)
	catalog, err := trust.Catalog(i.w)
	if err != nil {
		i.add("trust-catalog-unreadable", SeverityError, "fix it, or move it away and import the keys again", "%v", err)
	}
	for _, agent := range i.agents {
		if err := trust.CheckSettings(i.w, agent); err != nil {
			i.add("trust-settings-unusable", SeverityError, "under signing:, sign_messages is true or false, verify_mode off, warn or enforce, and kid the id of a key",
				"%s cannot send, and reads only verified messages: %v", agent, err)
		}
		if err := trust.CheckIdentity(i.w, agent); err != nil {
			i.add("trust-workspace-id", SeverityError, "restore workspace.json; in another workspace, oacp trust sign-policy --agent "+string(agent)+" signs for it", "%v", err)
		}
		pins, err := trust.Pins(i.w, agent)
		if err != nil {
			i.add("trust-pins-unreadable", SeverityError, "fix it, or move it away and import the keys again", "%s trusts nobody: %v", agent, err)
			continue
		}
		if len(pins) > 0 {
			i.add("trust-pins-loaded", SeverityOK, "", "%s has pinned %s", agent, spelling.Plural(len(pins), "key"))
		}
		if mode, _ := trust.ModeOf(i.w, agent); mode == trust.Enforce {
			i.unpinned(agent, catalog, pins)
		}
	}
	if len(i.findings) == before {
		i.add("trust-root", SeveritySkipped, "oacp key gen and oacp trust import begin to sign", "there are no trust files: messages here are not signed")
	}
}

// unpinned lists keys of the catalog that an agent does not trust, if it reads only messages signed with trusted keys.
func (i *inspection) unpinned(agent schema.AgentName, catalog, pins []trust.Entry) {
	for _, l := range catalog {
		if l.Agent != agent && !slices.ContainsFunc(pins, func(p trust.Entry) bool { return p.KeyID == l.KeyID }) {
			i.add("trust-catalog-not-pinned", SeverityOK, "oacp trust import FILE --agent "+string(agent)+" pins it, if the agent should trust it",
				"%s does not trust the key %s of %s, and reads only verified messages", agent, l.KeyID, l.Agent)
		}
	}
}
