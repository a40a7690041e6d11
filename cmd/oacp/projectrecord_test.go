package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/command"
)

const recordPath = "testdata/reference_projects.json"

// A scenario is what the reference implementation did with a few command lines in a new home.
type scenario struct {
	Name string `json:"name"`
	// Files are there before the first step; $DIR in a text is the temporary folder that holds the
	// home, in $DIR/home.
	Files map[string]string `json:"files,omitempty"`
	// Folders are there, too.
	Folders []string `json:"folders,omitempty"`
	Steps   []step   `json:"steps"`
	// Tree are the files and folders below $DIR after the last step, but for messages.
	Tree []string `json:"tree"`
	// Why says why this program does something else.
	Why string `json:"why,omitempty"`
	// OurTree are files and folders that only this program makes.
	OurTree []string `json:"our_tree,omitempty"`
}

// A step is a command line and its outcome. The rest is read from an answer in JSON.
type step struct {
	Args []string `json:"args"`
	Exit int      `json:"exit"`
	// Findings maps "category: name" to a severity. The machine is not the subject here.
	Findings map[string]string `json:"findings,omitempty"`
	// Fixed counts repairs.
	Fixed int `json:"fixed,omitempty"`
	// OurExit and OurFindings are what this program does instead.
	OurExit     *int              `json:"our_exit,omitempty"`
	OurFindings map[string]string `json:"our_findings,omitempty"`
}

// outcome fills in what a step printed.
func (s *step) outcome(t *testing.T, exit int, stdout []byte) {
	t.Helper()
	s.Exit, s.Findings, s.Fixed = exit, nil, 0
	if !slices.Contains(s.Args, "--json") {
		return
	}
	var answer struct {
		Fixed      []string
		Categories []struct {
			Name    string
			Results []struct{ Name, Severity string }
		}
	}
	if err := json.Unmarshal(stdout, &answer); err != nil {
		t.Fatalf("%v: %v in\n%s", s.Args, err, stdout)
	}
	s.Fixed = len(answer.Fixed)
	for _, category := range answer.Categories {
		for _, result := range category.Results {
			if category.Name == "Environment" {
				continue
			}
			if s.Findings == nil {
				s.Findings = make(map[string]string)
			}
			s.Findings[category.Name+": "+result.Name] = result.Severity
		}
	}
}

// play plays a scenario in a new folder and returns the outcomes.
func (s scenario) play(t *testing.T, call func(dir string, args []string) (exit int, stdout []byte)) (steps []step, tree []string) {
	t.Helper()
	dir := t.TempDir()
	expand := func(text string) string {
		text = strings.ReplaceAll(text, "$DIR", dir)
		return strings.ReplaceAll(text, "$NOW", time.Now().UTC().Format("2006-01-02T15:04:05Z"))
	}
	for _, name := range append([]string{"home"}, s.Folders...) {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range s.Files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(expand(text)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, recorded := range s.Steps {
		args := make([]string, len(recorded.Args))
		for i, arg := range recorded.Args {
			args[i] = expand(arg)
		}
		exit, stdout := call(dir, args)
		played := step{Args: recorded.Args, OurExit: recorded.OurExit, OurFindings: recorded.OurFindings}
		played.outcome(t, exit, stdout)
		steps = append(steps, played)
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		isMessage := strings.Contains(name, "box/") && filepath.Ext(name) == ".yaml"
		if err == nil && name != "." && !isMessage {
			tree = append(tree, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return steps, tree
}

// TestProjectsAsRecorded compares doctor, after init and add-agent, with what the reference
// implementation does. Where OACP_REFERENCE names a checkout of it, its own behaviour must be as
// recorded.
func TestProjectsAsRecorded(t *testing.T) {
	data, err := os.ReadFile(recordPath)
	if err != nil {
		t.Fatal(err)
	}
	var scenarios []scenario
	if err := json.Unmarshal(data, &scenarios); err != nil {
		t.Fatal(err)
	}
	reference := os.Getenv("OACP_REFERENCE")
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.Name, func(t *testing.T) {
			if reference != "" {
				s.compareReference(t, reference)
			}
			steps, tree := s.play(t, callOurs)
			for n, ours := range steps {
				s.Steps[n].compare(t, ours)
			}
			want := slices.Concat(s.Tree, s.OurTree)
			tree = slices.DeleteFunc(tree, func(name string) bool {
				return strings.HasSuffix(name, "/state/outgoing") || strings.HasSuffix(name, "/state/.gitignore") || strings.Contains(name, "/state/unasked") ||
					strings.HasSuffix(name, "/.gitattributes")
			})
			for _, name := range without(tree, want) {
				t.Errorf("%s is there", name)
			}
			for _, name := range without(want, tree) {
				t.Errorf("%s is missing", name)
			}
		})
	}
	if reference == "" {
		t.Log("OACP_REFERENCE names no checkout of the reference implementation: its behaviour is only compared with the record")
	} else if *update {
		var out bytes.Buffer
		if err := command.WriteJSON(&out, scenarios); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(recordPath, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// without returns the names that are not among others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// callOurs runs a command line inside this process.
func callOurs(dir string, args []string) (exit int, stdout []byte) {
	var out bytes.Buffer
	env := map[string]string{"OACP_HOME": filepath.Join(dir, "home")}
	exit = run(context.Background(), args, &command.Streams{
		In: strings.NewReader(""), Out: bufio.NewWriter(&out), Err: &bytes.Buffer{}, Dir: dir, Now: time.Now,
		Getenv: func(name string) string { return env[name] },
	})
	return exit, out.Bytes()
}

// compareReference plays the scenario with the reference implementation.
func (s *scenario) compareReference(t *testing.T, checkout string) {
	steps, tree := s.play(t, func(dir string, args []string) (int, []byte) {
		program := referenceProgram()
		call := exec.CommandContext(t.Context(), program[0], slices.Concat(program[1:], args)...)
		call.Dir = dir
		call.Env = append(os.Environ(), "OACP_HOME="+filepath.Join(dir, "home"), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+checkout)
		stdout, _ := call.Output() // the exit status says the same
		return call.ProcessState.ExitCode(), stdout
	})
	if *update {
		s.Steps, s.Tree = steps, tree
		return
	}
	got, err := json.Marshal([]any{steps, tree})
	if err != nil {
		t.Fatal(err)
	}
	if want, err := json.Marshal([]any{s.Steps, s.Tree}); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the reference implementation does\n%s\nbut recorded is (%v)\n%s", got, err, want)
	}
}

// compare compares the outcome of a step with the recorded one. More findings and repairs than
// recorded are fine.
func (s step) compare(t *testing.T, ours step) {
	t.Helper()
	want := s.Exit
	if s.OurExit != nil {
		want = *s.OurExit
	}
	if ours.Exit != want || s.OurExit != nil && want == s.Exit {
		t.Errorf("%v: exit status %d, want %d", s.Args, ours.Exit, want)
	}
	for name, severity := range s.Findings {
		want, differs := s.OurFindings[name]
		if !differs {
			want = severity
		}
		if got := ours.Findings[name]; got != want || differs && want == severity {
			t.Errorf("%v: %s is %q, want %q", s.Args, name, got, want)
		}
	}
	if ours.Fixed < s.Fixed {
		t.Errorf("%v: %d repairs, want %d", s.Args, ours.Fixed, s.Fixed)
	}
}
