package doctor

import (
	"context"
	"errors"
	"strings"

	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/commit"
	"github.com/oacp-go/oacp/schema"
)

// committed inspects whether the repository around the workspace, to which users may commit it, accepts the
// messages and leaves them unchanged. A workspace that git ignores altogether stays on this machine, which
// is fine.
func (i *inspection) committed(ctx context.Context) {
	g := &git.Repository{Dir: i.w.Dir()}
	_, err := commit.Open(ctx, i.w)
	if ignored, ok := errors.AsType[*commit.IgnoredError](err); ok {
		if _, err := g.Run(ctx, "check-ignore", "--quiet", "--no-index", "--", schema.MarkerName); err != nil {
			i.add("messages", SeverityWarning, "remove the rule, or let git ignore the whole workspace", "git ignores them, because of %s", ignored.Rule)
		}
		return
	}
	if err != nil || len(i.agents) == 0 {
		return // there is no repository, or it is busy
	}
	probe := schema.BoxPath(i.agents[0], mailbox.Outbox) + "/20260313T1430Z_claude_task_request.yaml"
	out, err := g.Run(ctx, "check-attr", "-z", "text", "merge", "--", probe)
	if err != nil {
		i.fail(attributesName, err)
		return
	}
	if strings.Count(string(out), "\x00unset\x00") == 2 {
		i.add("messages", SeverityOK, "", "git keeps them as they are")
		return
	}
	i.add(attributesName, SeverityWarning, "oacp commit writes agents/.gitattributes; remove what overrides it",
		"does not keep git from changing messages: it may convert line endings, and merge the contents of two messages")
}
