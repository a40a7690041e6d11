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
		Topic{"workspace", "which workspace and agent a command means", func() string { return workspaceTopic }},
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

   0       done
   1       the thing asked about is bad, or the command failed
   2       the command line is wrong
   3       nothing came in time (next, inbox --wait, send --wait); of verify:
           the signature is not good
   128+n   stopped by signal n (130 for ^C)

An error is a line "oacp: COMMAND: what is wrong" on standard error, often with
a line "hint: what to do" below it. With --json it is also an object on standard
output: {"error": …, "code": …, "hint": …}. After ^C, commands that run until
you stop them (run, watch --follow, mirror --follow, sync --every, mcp,
dashboard) exit with status 0.
`

const workspaceTopic = `
workspace - which workspace and agent a command means

The workspace is the folder that holds agents/. It is the first of

   --dir DIR           the folder DIR
   --project PROJECT   the project PROJECT; also the argument [PROJECT]
   $OACP_WORKSPACE     this folder
   otherwise           the nearest folder at or above the current one that
                       holds agents/ or .oacp/agents/

A project is a folder in projects/ of the home. The home is the first of

   --oacp-dir DIR      the folder DIR
   $OACP_HOME          this folder
   otherwise           that of the project around the current folder, or ~/oacp

The agent for which a command acts is the first of

   --from, --agent     this agent
   $OACP_AGENT         this agent; set it once, and leave out the flags
   $AGENT_NAME         this agent
   otherwise           the one agent whose card (agents/AGENT/agent_card.yaml)
                       names the runtime that oacp runs in: $OACP_RUNTIME, or
                       the marks that Claude Code, Codex and Gemini leave

oacp init makes a workspace, oacp add-agent adds an agent to it, and oacp doctor
says what is wrong with it.
`
