package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParse parses what the systems say about shells, and checks which of them only run a command for another program. The files of Linux were
// recorded. Those of macOS are written byte by byte as its kernel lays them out, with the environment and the strings for its
// loader behind the arguments: the machines that test oacp do not run it.
func TestParse(t *testing.T) {
	for name, want := range map[string]struct {
		arguments string
		isBetween bool
	}{
		"linux-sh.stat":          {"sh -c sleep 3 & wait", true},
		"linux-bash.stat":        {"bash -c sleep 3; true", true},
		"linux-script.stat":      {"bash /dev/fd/3", true},
		"macos-zsh.procargs2":    {"/bin/zsh -c -l oacp next --agent codex", true},
		"macos-sh.procargs2":     {"sh -c oacp next; true", true},
		"macos-login.procargs2":  {"-zsh", false},
		"macos-script.procargs2": {"/bin/bash ./watch.sh -c", true},
	} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		var p Info
		if stem, ok := strings.CutSuffix(name, ".stat"); ok {
			line, err := os.ReadFile(filepath.Join("testdata", stem+".cmdline"))
			if err != nil {
				t.Fatal(err)
			}
			p = parseStat(1, data)
			p.Arguments = string(line)
			if p.PID != 1 || p.Parent < 2 || p.Started == "" {
				t.Errorf("%s: process %+v, want its number, its parent and its start", name, p)
			}
		} else {
			p = Info{Name: strings.TrimPrefix(strings.Split(want.arguments, " ")[0], "/bin/"), Arguments: parseProcargs2(data)}
		}
		arguments := strings.ReplaceAll(strings.TrimSuffix(p.Arguments, "\x00"), "\x00", " ")
		if arguments != want.arguments || !p.isShell() || p.isBetween() != want.isBetween {
			t.Errorf("%s: %q is a shell: %t, between: %t; want %q, true, %t", name, arguments, p.isShell(), p.isBetween(), want.arguments, want.isBetween)
		}
	}
}

// TestIsBetween decides which programs other than shells stand between a session's program and a command.
func TestIsBetween(t *testing.T) {
	for arguments, want := range map[string]bool{
		"timeout 5 oacp next": true, "python3 agent.py": true, "node /opt/tool.js": true, "xargs oacp ack": true,
		"/bin/sh ./work.sh": true, "/usr/bin/python3 ./work.sh": true, "setsid oacp next": true,
		"node /usr/bin/gemini --acp": false, "codex exec": false, "agent": false, "bash": false, "-zsh": false, "bash -i": false,
	} {
		words := strings.Fields(arguments)
		for _, name := range []string{words[0], "work.sh"} { // what the system calls a script that names its interpreter
			p := Info{Name: name, Arguments: strings.Join(words, "\x00") + "\x00"}
			if got := p.isBetween(); got != want {
				t.Errorf("%s: %q is between: %t, want %t", name, arguments, got, want)
			}
		}
	}
}

func TestParseDamaged(t *testing.T) {
	data, err := os.ReadFile("testdata/macos-zsh.procargs2")
	if err != nil {
		t.Fatal(err)
	}
	whole := parseProcargs2(data)
	for n := range data {
		if got := parseProcargs2(data[:n]); got != "" && got != whole {
			t.Errorf("the first %d bytes give %q, want all arguments or none", n, got)
		}
	}
	for _, stat := range []string{"", "1 (sh", "1 )sh(", "1 (sh) S", "1 (sh) Z " + strings.Repeat("1 ", 30), "1 (sh) S x " + strings.Repeat("1 ", 30)} {
		if got := parseStat(1, []byte(stat)); got != (Info{}) {
			t.Errorf("%q gives %+v, want nothing", stat, got)
		}
	}
}
