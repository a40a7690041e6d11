package doctor

import "os/exec"

// programs are the executables that some commands use, and what for.
var programs = []struct{ name, use, hint string }{
	{"git", "carrying mailboxes between machines", "install git from your system's packages"},
	{"claude", "turns run by Claude Code", "install Claude Code, or use another agent"},
	{"codex", "turns run by Codex", "install the Codex CLI, or use another agent"},
}

// InspectMachine reports which programs are on the PATH, with their paths as messages. Sending and reading
// messages needs none of them, so a missing one is not an error.
func InspectMachine() []Finding {
	findings := make([]Finding, len(programs))
	for n, p := range programs {
		f := Finding{Category: categoryEnvironment, Name: p.name, Severity: SeverityOK}
		var err error
		if f.Message, err = exec.LookPath(p.name); err != nil {
			f.Severity, f.Message, f.Hint = SeveritySkipped, "not on the PATH; optional, for "+p.use, p.hint
		}
		findings[n] = f
	}
	return findings
}
