package command

import "slices"

// A Topic is a page of help that explains no single command.
type Topic struct {
	Name  string
	Usage string
	Text  func() string
}

// topics returns the topics of this program, and those of every program.
func (p *Program) topics() []Topic {
	return append(slices.Clip(p.Topics),
		Topic{"workspace", "how commands find their workspace", func() string { return workspaceTopic }},
		Topic{"exit-status", "what exit statuses mean", func() string { return exitStatusTopic }},
	)
}

// topic returns the topic of the name, or nil.
func (p *Program) topic(name string) *Topic {
	all := p.topics()
	if at := slices.IndexFunc(all, func(t Topic) bool { return t.Name == name }); at >= 0 {
		return &all[at]
	}
	return nil
}

func (p *Program) topicCandidates() []Candidate {
	var found []Candidate
	for _, t := range p.topics() {
		found = append(found, Candidate{t.Name, t.Usage})
	}
	return found
}

const exitStatusTopic = `
exit-status - what exit statuses mean

   0       success
   1       the command failed, or the message or file is not valid
   2       usage error
   3       a wait timed out (next, inbox --wait, send --wait), or verify found
           a signature that is not good
   128+n   stopped by signal n (130 for ^C)

An error is a line "oacp: COMMAND: what is wrong" on standard error, often
followed by a line "hint: what to do". With --json it is also an object on
standard output: {"error": …, "code": …, "hint": …}. Commands that run until you
stop them (run, watch --follow, mirror --follow, sync --every, mcp, dashboard)
exit with status 0 after ^C.
`

const workspaceTopic = `
workspace - how commands find their workspace and agent

The workspace is the folder that contains workspace.json and agents/. It is the
first of

   --dir DIR           the folder DIR
   --project PROJECT   the project PROJECT; also the argument [PROJECT]
   $OACP_WORKSPACE     this folder
   otherwise           the nearest folder at or above the current one that is
                       one, or has one in .oacp

A project is a folder in projects/ of the home. The home is the first of

   --oacp-dir DIR      the folder DIR
   $OACP_HOME          this folder
   otherwise           that of the project around the current folder, or ~/oacp

A command acts for an agent, the first of

   --from, --agent     this agent
   $OACP_AGENT         this agent; set it once and omit the flags
   $AGENT_NAME         this agent
   otherwise           the one agent whose card (agents/AGENT/agent_card.yaml)
                       names the runtime that oacp runs in: $OACP_RUNTIME, or
                       the one that Claude Code, Codex or Gemini indicates

oacp init creates a workspace, oacp add-agent adds an agent to it, and oacp
doctor finds what is wrong with it.
`
