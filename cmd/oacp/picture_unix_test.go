//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/mattn/go-shellwords"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
)

// inPictures marks the process in which TestPictures takes them. The times that a process gives to
// messages only grow, so those of other tests would show in the pictures.
const inPictures = "OACP_TEST_PICTURES"

// TestPictures compares the pictures of a terminal in docs/pictures with what the commands print.
// With -update it takes them anew.
func TestPictures(t *testing.T) {
	if os.Getenv(inPictures) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPictures$", fmt.Sprintf("-update=%t", *update))
		child.Env = append(os.Environ(), inPictures+"=yes", "TZ=UTC", "HOME="+t.TempDir())
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

// takePictures plays some minutes of two agents. Time passes only between the commands.
func takePictures(t *testing.T, dir string) {
	p := &photographer{t: t, dir: dir}
	time.Sleep(time.Until(time.Date(2026, time.March, 13, 14, 30, 20, 0, time.UTC)))
	p.run("", "oacp init --agents claude,codex")
	p.screen.Reset()

	p.run("claude", `oacp send --to codex --type task_request --subject "Add rate limiting" \
    --body "A token bucket for each key, 100 requests a minute."`)
	time.Sleep(47 * time.Second)
	p.run("codex", "oacp next")
	task := p.pending("codex")
	p.run("codex", "oacp reply "+task+` --type question --body "Which status has a refused request?"`)
	time.Sleep(13 * time.Second)
	p.run("claude", "oacp reply "+p.pending("claude")+` --ack --body "429, with Retry-After."`)
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

// run shows a command line of an agent and what it prints.
func (p *photographer) run(agent, line string) {
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
	p.screen.WriteString(strings.ReplaceAll(out.String(), p.dir, "~/shop"))
}

// pending returns the short id of the first message in an agent's inbox.
func (p *photographer) pending(agent string) string {
	p.t.Helper()
	var answer struct {
		Agents []struct{ Messages []struct{ ID string } }
	}
	s := &session{Streams: &command.Streams{In: strings.NewReader(""), Dir: p.dir, Now: time.Now, Getenv: func(string) string { return "" }}}
	s.Err = &s.stderr
	if err := json.Unmarshal([]byte(s.must(p.t, "inbox", "--agent", agent, "--json")), &answer); err != nil {
		p.t.Fatal(err)
	}
	id := answer.Agents[0].Messages[0].ID
	return id[strings.LastIndex(id, "-")+1:]
}

// take compares the picture of the name with the screen, and clears the screen.
func (p *photographer) take(name, title string) {
	p.t.Helper()
	path := filepath.Join("..", "..", "docs", "pictures", name+".svg")
	got := svg(title, strings.TrimSpace(p.screen.String()))
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
	`rect{fill:#f6f8fa}.bold{font-weight:bold}.faint{opacity:.6}.red{fill:#cf222e}.green{fill:#1a7f37}` +
	`.yellow{fill:#9a6700}.blue,.cyan{fill:#0969da}.magenta{fill:#8250df}` +
	`@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#161b22}.red{fill:#ff7b72}.green{fill:#7ee787}` +
	`.yellow{fill:#e3b341}.blue,.cyan{fill:#79c0ff}.magenta{fill:#d2a8ff}}`

// svg draws the text, whose colours are escape sequences, as a picture.
func svg(title, screen string) []byte {
	var b bytes.Buffer
	lines, columns := strings.Split(screen, "\n"), columns
	for _, line := range lines {
		columns = max(columns, cells.String(line))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="img" xml:space="preserve"><title>%s</title>`+
		"\n<style>%s</style>\n"+`<rect width="%[1]d" height="%[2]d" rx="8"/>`+"\n",
		columns*cellWidth/10+2*margin, len(lines)*lineHeight+2*margin, escaped(title), svgStyle)
	for i, line := range lines {
		column, style := 0, []string(nil)
		for len(line) > 0 {
			at := sequence.FindStringSubmatchIndex(line)
			if at == nil {
				at = []int{len(line), len(line), len(line), len(line)}
			}
			if text := line[:at[0]]; strings.TrimSpace(text) != "" {
				size := cells.String(text)
				fmt.Fprintf(&b, `<text x="%.1f" y="%d" textLength="%.1f"`, margin+float64(column*cellWidth)/10, margin+(i+1)*lineHeight-6, float64(size*cellWidth)/10)
				if len(style) > 0 {
					fmt.Fprintf(&b, ` class="%s"`, strings.Join(style, " "))
				}
				fmt.Fprintf(&b, ">%s</text>\n", escaped(text))
			}
			column += cells.String(line[:at[0]])
			style = restyled(style, line[at[2]:at[3]])
			line = line[at[1]:]
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

var sequence = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// restyled returns the style after an escape sequence.
func restyled(style []string, codes string) []string {
	names := map[string]string{"1": "bold", "2": "faint", "31": "red", "32": "green", "33": "yellow", "34": "blue", "35": "magenta", "36": "cyan"}
	for code := range strings.SplitSeq(codes, ";") {
		switch name, ok := names[code]; {
		case ok:
			style = append(slices.Clip(style), name)
		case code == "22":
			style = slices.DeleteFunc(slices.Clone(style), func(s string) bool { return s == "bold" || s == "faint" })
		default:
			style = nil
		}
	}
	return style
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder does not fail
	return b.String()
}
