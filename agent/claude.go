package agent

import "context"

// claude is the driver for Claude Code: the claude program in print mode, with streaming JSON in
// both directions. The events of a turn are the program's messages, byte for byte, without the
// control messages between program and driver. The next turn shows and counts what the program does
// between turns, for commands that run in the background.
type claude struct {
	resident
	background background
}

// NewClaude returns the driver for Claude Code. It changes none of the user's settings.
func NewClaude(options Options) Driver {
	c := &claude{resident: newResident(options, claudeRelease)}
	c.launch = func(ctx context.Context, session string) (process, error) {
		p, err := c.start(ctx, session)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	return c
}

// claudeRelease names the oldest release that the driver is known to work with.
var claudeRelease = release{
	program: "claude",
	oldest:  version{2, 1, 0},
	install: "install Claude Code with: npm install -g @anthropic-ai/claude-code",
	login:   "log in once with: claude /login (or set ANTHROPIC_API_KEY)",
}
