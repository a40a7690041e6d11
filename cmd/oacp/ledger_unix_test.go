//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/process"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// ledgerSeed and ledgerSeeds are the environment variables with the only seed that TestLedger walks, and with the number of
// seeds that it chooses at random.
const (
	ledgerSeed  = "OACP_LEDGER_SEED"
	ledgerSeeds = "OACP_LEDGER_SEEDS"
)

// TestLedger has three agents do at random what they can with their mail, through several fronts at the same time, and kills
// some of the processes. A model says in which states each message can be after that: one living holder, one answer, no recall of what
// was given, nothing noticed that was not shown. Seeds fix the choices, not the moments.
func TestLedger(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 2, 3}
	if seed, err := strconv.ParseUint(os.Getenv(ledgerSeed), 10, 64); err == nil {
		seeds = []uint64{seed}
	}
	if number, err := strconv.Atoi(os.Getenv(ledgerSeeds)); err == nil {
		seeds = make([]uint64, number)
		for i := range seeds {
			seeds[i] = rand.Uint64() >> 32
		}
	}
	for _, seed := range seeds {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { walkLedger(t, seed) }) {
			return
		}
	}
}

// walkers are the agents. The last one has live sessions instead of a runner.
var walkers = []schema.AgentName{"ada", "bob", "cyd"}

func walkLedger(t *testing.T, seed uint64) {
	x := &ledgerWalk{
		t: t, s: newSession(t, "ada,bob,cyd"), random: rand.New(rand.NewPCG(seed, 0)), letters: make(map[schema.ID]*letter),
		log: filepath.Join(t.TempDir(), "log"),
	}
	for range 12 {
		x.round++
		if x.step(); t.Failed() {
			t.Logf("%s=%d repeats the choices, but not the moments", ledgerSeed, seed)
			return
		}
	}
}

// A letter is a message of the walk, and what is known of it.
type letter struct {
	id       schema.ID
	from, to schema.AgentName
	// asks is set for a question, which can be answered.
	asks bool
	// states are those in which it can be.
	states []letterState
	// history has a line for each effect, with its round.
	history []string
	// hooked are the fronts whose session may have shown it.
	hooked frontSet
}

// A ledgerWalk is a walk of several agents over the ledgers of their messages.
type ledgerWalk struct {
	t       *testing.T
	s       *session
	random  *rand.Rand
	round   int
	letters map[schema.ID]*letter
	ids     []schema.ID
	shells  []*holderShell
	// log is the file to which turns append the ids of their messages, and logged what of it was read.
	log    string
	logged int
}

// A holderShell is the leader of a session, which runs programs of an agent, one after another.
type holderShell struct {
	agent  schema.AgentName
	front  frontSet
	output string
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// holderScript runs each line in the shell's own process, and prints the numbers of the processes and their exit statuses.
const holderScript = `while read -r line; do
	eval "exec $line" >"$0" 2>"$0.err" </dev/null & echo $!; wait $!; echo $?
done`

// start fills up the shells.
func (x *ledgerWalk) start() {
	for i, agent := range walkers {
		for n := range 2 {
			front := frontSet(1) << n
			if slices.ContainsFunc(x.shells, func(h *holderShell) bool { return h.agent == agent && h.front == front }) {
				continue
			}
			h := &holderShell{agent: agent, front: front, output: filepath.Join(x.t.TempDir(), "out")}
			h.Cmd = exec.CommandContext(x.t.Context(), "bash", "-c", holderScript, h.output)
			h.Dir, h.SysProcAttr = x.s.Dir, &syscall.SysProcAttr{Setsid: true}
			h.Env = append(os.Environ(), "OACP_AGENT="+string(agent), "OACP_WORKSPACE="+x.s.Dir, fmt.Sprintf("SESSION=s%d-%d-%d", i, n, x.round))
			in, err := h.StdinPipe()
			x.fatal(err)
			out, err := h.StdoutPipe()
			x.fatal(err)
			x.fatal(h.Start())
			h.in, h.out = in, bufio.NewScanner(out)
			x.shells = append(x.shells, h)
		}
	}
}

func (x *ledgerWalk) fatal(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// line returns the next line of the shell, empty if it was killed.
func (h *holderShell) line() string {
	h.out.Scan()
	return h.out.Text()
}

// An act is a process, and what is known of it.
type act struct {
	verb, line string
	shell      *holderShell
	// id is the message that it names.
	id schema.ID
	// killed reports whether it, or its shell too, was killed.
	killed, shellKilled bool
	status, out         string
	// shown are the messages that it showed, and code that of its error.
	shown []schema.ID
	code  string
	// box is where the message was that it read.
	box mailbox.Box
}

// pick returns a message, preferably a late one, or "".
func (x *ledgerWalk) pick(fits func(*letter) bool) schema.ID {
	var some []schema.ID
	for _, id := range x.ids {
		if fits(x.letters[id]) {
			some = append(some, id)
		}
	}
	if some = some[max(0, len(some)-5):]; len(some) == 0 {
		return ""
	}
	return some[x.random.IntN(len(some))]
}

// verbs are what a shell can do. Those that name a message say which.
var verbs = []struct {
	name   string
	weight int
	fits   func(h *holderShell, l *letter) bool
	line   string
}{
	{"send", 4, nil, "oacp send --to {to} --type question --subject s --body b --json"},
	{"next", 6, nil, "oacp next --json --timeout 1ms"},
	{"next full", 1, nil, "oacp next --json --timeout 1ms >/dev/full"},
	{"next far", 1, nil, "unshare --pid --fork --kill-child --mount-proc sh -c 'oacp next --json --timeout 1ms; exit $?'"},
	{"next tool", 2, nil, `oacp-mcp <<<'{tool}'`},
	{"hook", 3, nil, `env CLAUDE_PID=$$ oacp hook claude <<<'{"hook_event_name": "{event}", "session_id": "'$SESSION'", "prompt": "x"}'`},
	{"run", 2, nil, `oacp run --once {reply} -- sh -c 'echo "$OACP_MESSAGE_ID" >>"$0"; echo text1' {log}`},
	{"read", 1, isTo, "oacp read {id} --json"},
	{"reply", 3, isQuestionTo, "oacp reply {id} --body {text} --json"},
	{"reply ack", 2, isQuestionTo, "oacp reply {id} --body {text} --ack --json"},
	{"ack", 2, isTo, "oacp ack {id} --json"},
	{"working", 1, isTo, "oacp working {id} half --json"},
	{"return", 1, isTo, "oacp return {id} --json"},
	{"recall", 4, func(h *holderShell, l *letter) bool { return l.from == h.agent && l.asks }, "oacp recall {id} --json"},
	{"restore", 2, isTo, "oacp restore {id} --json"},
}

func isTo(h *holderShell, l *letter) bool         { return l.to == h.agent }
func isQuestionTo(h *holderShell, l *letter) bool { return l.to == h.agent && l.asks }

// nextTool is what a program says to the MCP server to get a message.
const nextTool = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"next_message","arguments":{"wait_seconds":0}}}`

// choose returns a random act of a shell.
func (x *ledgerWalk) choose(h *holderShell) *act {
	total := 0
	for _, v := range verbs {
		total += v.weight
	}
	at := x.random.IntN(total)
	v := verbs[0]
	for _, v = range verbs {
		if at -= v.weight; at < 0 {
			break
		}
	}
	isLive := h.agent == walkers[len(walkers)-1]
	a := &act{verb: v.name, shell: h}
	if v.fits != nil {
		a.id = x.pick(func(l *letter) bool { return v.fits(h, l) })
	}
	if v.fits != nil && a.id == "" || v.name == "run" && isLive || v.name == "hook" && !isLive || v.name == "next far" && !canUnshare() {
		v = verbs[0]
		a.verb = v.name
	}
	to := walkers[(slices.Index(walkers, h.agent)+1+x.random.IntN(2))%len(walkers)]
	a.line = strings.NewReplacer("{to}", string(to), "{id}", string(a.id), "{text}", fmt.Sprint("text", x.random.IntN(3)), "{log}", x.log,
		"{event}", []string{"UserPromptSubmit", "PostToolUse", "Stop"}[x.random.IntN(3)], "{reply}", []string{"", "--reply"}[x.random.IntN(2)],
		"{tool}", strings.ReplaceAll(nextTool, "\n", "'$'\\n''")).Replace(v.line)
	return a
}

// canUnshare reports whether a process may get a namespace for its children, as in a container.
var canUnshare = sync.OnceValue(func() bool {
	return exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "true").Run() == nil
})

// step has some of the shells run a process at the same time, and compares the result with the model.
func (x *ledgerWalk) step() {
	x.start()
	x.random.Shuffle(len(x.shells), func(i, j int) { x.shells[i], x.shells[j] = x.shells[j], x.shells[i] })
	var acts []*act
	for _, h := range x.shells[:2+x.random.IntN(4)] {
		a := x.choose(h)
		_ = os.Remove(h.output) // there may be none
		_, err := io.WriteString(h.in, a.line+"\n")
		x.fatal(err)
		acts = append(acts, a)
	}
	for _, a := range acts {
		pid, err := strconv.Atoi(a.shell.line())
		x.fatal(err)
		choice := x.random.IntN(8)
		if a.killed, a.shellKilled = choice < 2, choice == 1; !a.killed || a.verb == "next far" { // nobody could wait for the end of the container
			a.killed, a.shellKilled = false, false
			continue
		}
		<-time.After(rand.N(30 * time.Millisecond))
		if a.shellKilled {
			_ = syscall.Kill(-a.shell.Process.Pid, syscall.SIGKILL) // it has not been waited for
		}
		for _ = syscall.Kill(pid, syscall.SIGKILL); a.shellKilled && process.Read(pid).PID > 0; { // it may have ended
			runtime.Gosched()
		}
	}
	for _, a := range acts {
		if a.status = a.shell.line(); a.shellKilled {
			_ = a.shell.Wait() // it was killed
			x.shells = slices.DeleteFunc(x.shells, func(h *holderShell) bool { return h == a.shell })
		}
		data, _ := os.ReadFile(a.shell.output) // it may have been killed before
		a.out = string(data)
	}
	x.compare(acts)
}

var shownBy = regexp.MustCompile(`Message (\w+) from`)

// understand reads what a process printed.
func (x *ledgerWalk) understand(a *act) {
	var printed struct {
		ID      schema.ID
		Code    string
		Places  []struct{ Agent, Box string }
		Already bool `json:"already_sent"`
	}
	isWhole := json.Unmarshal([]byte(a.out), &printed) == nil
	switch {
	case a.verb == "hook" || a.verb == "next tool":
		for _, found := range shownBy.FindAllStringSubmatch(a.out, -1) {
			for _, id := range x.ids {
				if id.Short() == found[1] {
					a.shown = append(a.shown, id)
				}
			}
		}
	case strings.HasPrefix(a.verb, "next") && isWhole && printed.ID != "":
		a.shown = []schema.ID{printed.ID}
	case a.verb == "read" && isWhole && printed.ID != "":
		a.shown = []schema.ID{printed.ID}
		for _, p := range printed.Places {
			if p.Agent == string(a.shell.agent) {
				a.box = mailbox.Box(p.Box)
			}
		}
	}
	if a.code = printed.Code; printed.Already {
		a.code = "already_sent"
	}
	if isLost := a.status != "0" && !isWhole && !a.killed && a.verb != "next full" && a.verb != "run"; isLost {
		data, _ := os.ReadFile(a.shell.output + ".err")
		x.t.Errorf("%s: exit status %s\n%s%s", a.line, a.status, a.out, data)
	}
}
