package track

import (
	"encoding/json"
	"os"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// A Command is a command of oacp, or a tool of its MCP server, that acted for an agent.
type Command struct {
	// Name is what an agent calls, such as "oacp next" or "next_message".
	Name string    `json:"command"`
	At   time.Time `json:"at"`
	// Host and Process are those of a command that waits.
	Host    string          `json:"host,omitempty"`
	Process process.Process `json:"process,omitzero"`
}

// The folder of runners has two more files for each agent: the last command, and the last one that waits for mail.
const (
	lastSuffix    = ".last"
	waitingSuffix = ".waiting"
	// maxCommand bounds the size of such a file, in bytes.
	maxCommand = 4 << 10
)

// NoteCommand records that a command acts for an agent. It neither syncs nor reports errors: only CommandsOf depends on
// it. A command that waits for mail does so until its process ends or the caller calls end, which is never nil.
func NoteCommand(w *mailbox.Workspace, agent schema.AgentName, name string, waits bool, now func() time.Time) (end func()) {
	if !w.Knows(agent) {
		return func() {}
	}
	note := func(suffix, host string, by process.Process) {
		dir, err := w.OpenStateFolder(runFolder)
		if err != nil {
			return
		}
		defer func() { _ = dir.Close() }()
		data, _ := json.Marshal(Command{name, inSeconds(now()), host, by}) // it can always be encoded
		if r, err := dir.Prepare(string(agent)+suffix, data, 0o644); err == nil {
			_ = r.Publish()
		}
	}
	if !waits {
		note(lastSuffix, "", process.Process{})
		return func() {}
	}
	host, _ := os.Hostname()
	note(waitingSuffix, host, process.Read(os.Getpid()).Process)
	return func() {
		note(lastSuffix, "", process.Process{})
		_ = w.Root().Remove(runFolder + "/" + string(agent) + waitingSuffix)
	}
}

// CommandsOf returns the command that acted last for an agent, and the one that waits for its mail now, nil if there is
// none. A command counts as waiting only if its process surely lives: on this host, where the system tells when it
// started.
func CommandsOf(w *mailbox.Workspace, agent schema.AgentName) (last, waiting *Command) {
	host, _ := os.Hostname()
	for _, suffix := range []string{lastSuffix, waitingSuffix} {
		c := new(Command)
		data, err := durable.ReadFile(w.Root(), w.Dir(), runFolder+"/"+string(agent)+suffix, maxCommand)
		if err != nil || json.Unmarshal(data, c) != nil || c.Name == "" {
			continue
		}
		if suffix == waitingSuffix && c.Host == host && c.Process.Started != "" && c.Process.IsAlive() {
			waiting = c
		}
		if last == nil || !c.At.Before(last.At) {
			last = c
		}
	}
	return last, waiting
}
