//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"html"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/mattn/go-shellwords"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/testing/check"
)

// inPictures marks the process in which TestPictures takes them. The times that a process gives to
// messages only grow, so those of other tests would show in the pictures.
const inPictures = "OACP_TEST_PICTURES"

// TestPictures compares the pictures of a terminal in docs/pictures with what the commands print.
// With -update it takes them anew.
func TestPictures(t *testing.T) {
	check.NeedsExclusiveRename(t)
	if os.Getenv(inPictures) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPictures$", fmt.Sprintf("-update=%t", *update))
		child.Env = append(os.Environ(), inPictures+"=yes", runsNoOACP+"=yes", "TZ=UTC", "HOME="+t.TempDir(), "GIT_CEILING_DIRECTORIES="+os.TempDir())
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	cryptotest.SetGlobalRandom(t, 1)
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// What the runtime makes for the first signal must not belong to the test's clock.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
	synctest.Test(t, func(t *testing.T) { takePictures(t, dir) })
}

// takePictures plays some minutes of two agents. Its sleeps advance the fake
// clock of synctest.
func takePictures(t *testing.T, dir string) {
	p := &photographer{t: t, dir: dir}
	time.Sleep(time.Until(time.Date(2026, time.March, 13, 14, 30, 20, 0, time.UTC)))
	p.run("", "oacp init --agents claude,codex")
	p.screen.Reset()

	task := p.run("claude", `oacp send --to codex --type task_request --subject "Add rate limiting" \
    --body "A token bucket for each key, 100 requests a minute."`)
	time.Sleep(47 * time.Second)
	p.run("codex", "oacp next")
	question := p.run("codex", "oacp reply "+task+` --type question --body "Which status has a refused request?"`)
	time.Sleep(13 * time.Second)
	p.run("claude", "oacp reply "+question+` --ack --body "429, with Retry-After."`)
	time.Sleep(9*time.Minute + 22*time.Second)
	p.run("codex", "oacp owed")
	p.take("loop", "Two agents hand over a task, ask and answer")

	p.run("codex", "oacp inbox")
	p.run("codex", "oacp reply "+task+` --ack --body "Done in limit.go. The tests pass."`)
	time.Sleep(29 * time.Second)
	p.run("claude", "oacp thread "+task)
	p.take("conversation", "The inbox and a conversation")

	p.run("claude", "oacp status "+task)
	p.take("status", "How far a message got")

	p.run("claude", "oacp dashboard --once")
	p.take("dashboard", "The dashboard")
}

// A photographer runs commands at a terminal and keeps what it shows.
type photographer struct {
	t      *testing.T
	dir    string
	screen bytes.Buffer
}

var conversationNumber = regexp.MustCompile(`(conv-\d{8}-[a-z]+-)\d{6}`)

// run shows a command line of an agent and what it prints. It returns the short id of the message
// that the command sent.
func (p *photographer) run(agent, line string) (sent string) {
	p.t.Helper()
	fmt.Fprintf(&p.screen, "\n\x1b[36m%s$\x1b[0m %s\n", agent, line)
	args, err := shellwords.Parse(strings.ReplaceAll(line, "\\\n", ""))
	if err != nil {
		p.t.Fatal(err)
	}
	var out bytes.Buffer
	s := &command.Streams{
		In: strings.NewReader(""), Out: bufio.NewWriter(&out), Err: &out, OutTerminal: true, ErrTerminal: true,
		Width: columns, Dir: p.dir, Now: time.Now,
		Getenv: func(name string) string { return map[string]string{"OACP_AGENT": agent}[name] },
	}
	if exit := wholeProgram().Run(p.t.Context(), args[1:], s); exit != failure.ExitDone {
		p.t.Fatalf("%s: exit status %d:\n%s", line, exit, out.String())
	}
	shown := strings.ReplaceAll(out.String(), p.dir, "~/shop")
	p.screen.WriteString(conversationNumber.ReplaceAllString(shown, "${1}000001")) // it differs between machines
	_, sent, _ = strings.Cut(out.String(), "sent ")
	sent, _, _ = strings.Cut(sent, " ")
	return sent
}

// take compares the picture of the name with the screen, and clears the screen.
func (p *photographer) take(name, title string) {
	p.t.Helper()
	path := filepath.Join("..", "..", "docs", "pictures", name+".svg")
	got := p.svg(title)
	p.screen.Reset()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		p.t.Errorf("%s does not show what the commands print (%v); go test ./cmd/oacp -run TestPictures -update takes it anew", path, err)
	}
}

const (
	columns    = 80
	cellWidth  = 84 // tenths of a pixel
	lineHeight = 20
	margin     = 16
)

// svgStyle has the colours of a light and of a dark screen.
const svgStyle = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328}` +
	`rect{fill:#f6f8fa}.bold{font-weight:bold}.cyan{fill:#0969da}.yellow{fill:#9a6700}` +
	`@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#161b22}.cyan{fill:#79c0ff}.yellow{fill:#d29922}}`

// classes are the styles of escape sequences.
var classes = map[string]string{"0": "", "22": "", "0;22": "", "1": ` class="bold"`, "33": ` class="yellow"`, "36": ` class="cyan"`}

// svg draws the screen.
func (p *photographer) svg(title string) []byte {
	p.t.Helper()
	var b bytes.Buffer
	lines, columns := strings.Split(strings.TrimSpace(p.screen.String()), "\n"), columns
	for _, line := range lines {
		columns = max(columns, cells.String(line))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="img" xml:space="preserve"><title>%s</title>`+
		"\n<style>%s</style>\n"+`<rect width="%[1]d" height="%[2]d" rx="8"/>`+"\n",
		columns*cellWidth/10+2*margin, len(lines)*lineHeight+2*margin, html.EscapeString(title), svgStyle)
	for i, line := range lines {
		column := 0
		for part := range strings.SplitSeq("0m"+line, "\x1b[") {
			code, text, _ := strings.Cut(part, "m")
			class, ok := classes[code]
			if !ok {
				p.t.Errorf("the pictures have no style for the escape sequence %q", code)
			}
			size := cells.String(text)
			if strings.TrimSpace(text) != "" {
				fmt.Fprintf(&b, `<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>`+"\n", margin+float64(column*cellWidth)/10,
					margin+(i+1)*lineHeight-6, float64(size*cellWidth)/10, class, html.EscapeString(text))
			}
			column += size
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
