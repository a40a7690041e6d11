package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
)

// standIn stands for a value that a text gets when the program runs.
const standIn = "a1b2"

// literal returns the text in an expression, with stand-ins for what is not constant.
func literal(e ast.Expr) (text string, isText bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, ok := literal(e.X)
		if !ok {
			left = standIn
		}
		right, alsoOK := literal(e.Y)
		if !alsoOK {
			right = standIn
		}
		return left + right, e.Op == token.ADD && (ok || alsoOK)
	case *ast.CallExpr: // visible.ShellCommand("oacp", "read", name)
		var words []string
		for _, argument := range e.Args {
			word, ok := literal(argument)
			if !ok {
				word = standIn
			}
			words = append(words, word)
		}
		return strings.Join(words, " "), len(words) > 0 && words[0] == "oacp"
	}
	return "", false
}

// sourceTexts returns the texts in the sources of the programs, each with its place.
func sourceTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == "testdata" {
			return cmp.Or(err, fs.SkipDir)
		}
		if entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, isText := literal(e)
			if isText {
				texts[files.Position(e.Pos()).String()] = text
			}
			return !isText
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

var (
	verb        = regexp.MustCompile(`%(\[\d\])?[sqv]`)
	placeholder = regexp.MustCompile(`^\[?[A-Z][A-Z-]+(…|\]|\|[A-Z-]+)*$`)
	value       = regexp.MustCompile(`^[\w./:@<>=-]*(` + standIn + `|[0-9./])[\w./:@-]*$`)
)

// commandIn returns the command line at the beginning of a text: the command, its flags, and arguments that are
// placeholders or values. What follows in the text is prose.
func commandIn(text string, commands []*cli.Command) (args []string) {
	var known *cli.Command
	words := strings.Fields(verb.ReplaceAllString(strings.ReplaceAll(text, "%d", "7"), standIn))
	for i := 0; i < len(words); i++ {
		word := strings.Trim(words[i], "`'\"")
		ends := strings.TrimRight(word, ",;:.)")
		at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == ends })
		switch {
		case at >= 0:
			known, commands = commands[at], commands[at].Subcommands
		case known == nil:
			return args
		case word == "--":
			return append(args, words[i:]...)
		case strings.HasPrefix(ends, "-") && len(ends) > 1:
			name, _, isSet := strings.Cut(strings.TrimLeft(ends, "-"), "=")
			if takesValue(known, name) && !isSet && ends == word && i+1 < len(words) {
				args = append(args, ends)
				i++
				word = strings.Trim(words[i], "`'\"")
				ends = strings.TrimRight(word, ",;:.)")
			}
		case !placeholder.MatchString(ends) && !value.MatchString(ends):
			return args
		}
		args = append(args, ends)
		if ends != strings.TrimRight(words[i], "`'\"") {
			return args
		}
	}
	return args
}

func takesValue(c *cli.Command, flag string) bool {
	return slices.ContainsFunc(c.Flags, func(f cli.Flag) bool {
		documented, ok := f.(cli.DocGenerationFlag)
		return ok && slices.Contains(f.Names(), flag) && documented.TakesValue()
	})
}

// filled returns a command line with values for its placeholders and stand-ins.
func filled(args []string, fill map[string]string) []string {
	args = slices.Clone(args)
	for i, word := range args {
		args[i] = strings.NewReplacer("…", "", "[", "", "]", "").Replace(word)
		if with, ok := fill[args[i]]; ok {
			args[i] = with
		}
		if i > 0 && (args[0] == "setup" || args[0] == "help") && strings.Contains(word, standIn) {
			args[i] = map[string]string{"setup": "claude", "help": "inbox"}[args[0]]
		}
	}
	switch {
	case args[0] == "mcp": // it would close the standard output of this process
		args = append(args, "--help")
	case args[0] == "run" && len(args) > 1 && !slices.Contains(args, "--") && !slices.Contains(args, "--driver"):
		args = append(args, "--driver", "echo") // people know what they run
	}
	return args
}

// isMention reports whether a text only names a command, as in "oacp send refuses it".
func isMention(args []string, commands []*cli.Command) bool {
	for _, word := range args {
		at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == word })
		if at < 0 {
			return false
		}
		commands = commands[at].Subcommands
	}
	return true
}

// A rehearsal tries command lines in a workspace in which codex has a message.
type rehearsal struct {
	*session
	program  *command.Program
	commands []*cli.Command
	fill     map[string]string
}

func newRehearsal(t *testing.T) *rehearsal {
	r := &rehearsal{session: newSession(t, "claude,codex"), program: wholeProgram()}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	r.env["HOME"], r.env["OACP_AGENT"] = home, "codex"
	id := strings.TrimSpace(r.must(t, "send", "--from", "claude", "--to", "codex", "--type", "question", "--subject", "s", "--body", "x", "-q"))
	r.fill = map[string]string{
		"ID": id, standIn: id, "AGENT": "codex", "NAME": "zoe", "FILE": filepath.Join(r.Dir, "workspace.json"), "TYPE": "question", "NUMBER": "7",
	}
	for _, entry := range r.program.Commands {
		r.commands = append(r.commands, entry.New(r.Streams))
	}
	return r
}

// try returns what is wrong with a command line: an unknown flag, or a missing argument or body.
func (r *rehearsal) try(ctx context.Context, args []string) string {
	ended, end := context.WithCancel(ctx)
	end()
	if args[0] != "reply" { // which looks for its body late
		ctx = ended
	}
	var out bytes.Buffer
	r.stderr.Reset()
	r.Out = bufio.NewWriter(&out)
	exit := r.program.Run(ctx, filled(args, r.fill), r.Streams)
	if said := r.stderr.String(); exit == failure.ExitUsage || strings.Contains(said, "nothing came in on standard input") {
		return strings.TrimSpace(said)
	}
	return ""
}

// TestHints tries every command line in a text of the programs, such as a hint.
func TestHints(t *testing.T) {
	r := newRehearsal(t)
	begins := regexp.MustCompile(`\boacp ([a-z])`)
	texts, tried := sourceTexts(t), make(map[string]bool)
	for _, place := range slices.Sorted(maps.Keys(texts)) {
		text := texts[place]
		if strings.Contains(text, "\n   ") {
			continue // a page of help: see TestExamples
		}
		for _, at := range begins.FindAllStringSubmatchIndex(text, -1) {
			args := commandIn(text[at[2]:], r.commands)
			line := strings.Join(args, " ")
			switch {
			case len(args) == 0 || tried[line]:
				continue
			case !strings.Contains(place, "failure") && isMention(args, r.commands):
				continue
			case strings.HasSuffix(line, standIn) && strings.HasSuffix(text, args[0]+" "+standIn) && args[0] == "reply":
				continue // next adds the rest
			case args[0] == "decide":
				continue // it needs a terminal
			case line == "reply ID --ack" && strings.Contains(place, "digest.go"):
				continue // a summary of what a greeting says in full, for few tokens
			}
			tried[line] = true
			if wrong := r.try(t.Context(), args); wrong != "" {
				t.Errorf("%s: oacp %s: %s", place, line, wrong)
			}
		}
	}
	t.Logf("tried %d command lines", len(tried))
	if len(tried) < 50 {
		t.Errorf("tried %d command lines, want at least 50: does this test still see them?", len(tried))
	}
}

// TestExamples tries the examples of the help texts.
func TestExamples(t *testing.T) {
	r := newRehearsal(t)
	t.Chdir(r.Dir)
	for _, name := range []string{"agents/codex/inbox/FILE", "message.yaml", "questions.md", "notes.md"} {
		if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	example, word := regexp.MustCompile(`(?m)^   (.*)\boacp (.*)$`), regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"'])+`)
	ends := regexp.MustCompile(` (\||>|<|&&)|   `) // the command
	count := 0
	for _, c := range allCommands(r.commands) {
		for _, match := range example.FindAllStringSubmatch(c.Description, -1) {
			line := ends.Split(match[2], 2)[0]
			if strings.Contains(line, "…") || line == "dashboard" || strings.HasPrefix(line, "decide") || line == "schema channel-findings" {
				continue // not a whole one, ones that need a terminal, and a schema of the workspace
			}
			var args []string
			for _, w := range word.FindAllString(strings.Trim(line, ")"), -1) {
				args = append(args, strings.Trim(w, `"'`))
			}
			r.In = strings.NewReader(map[bool]string{true: "from a pipe"}[strings.ContainsAny(match[0], "|<")])
			if wrong := r.try(t.Context(), args); wrong != "" {
				t.Errorf("%s: the example oacp %s: %s", c.Name, line, wrong)
			}
			count++
		}
	}
	if count < 60 {
		t.Errorf("there are %d examples, want at least 60", count)
	}
}
