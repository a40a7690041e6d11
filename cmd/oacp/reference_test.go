package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "record the behaviour of the reference implementation anew")

// recordedFile holds what the reference implementation does in each case. TestReferenceRecord
// writes it.
const recordedFile = "testdata/reference/recorded.json"

// A referenceCase is a series of command lines that both implementations run, each in a home of its
// own.
type referenceCase struct {
	name string
	// files are there before the first command, by their path in the home; a path that ends in a
	// slash is a folder. HOME stands for the home.
	files map[string]string
	steps []referenceStep
	// differs says why we differ on purpose; empty if we do not. Then exits are our exit statuses.
	differs string
	exits   []int
}

// A referenceStep is a command line: words, with those that hold spaces in single quotes. HOME
// stands for the home.
type referenceStep struct {
	line  string
	stdin string
	env   []string
	// remove is a pattern of files that are removed before the command.
	remove string
}

// A fact is what an implementation did in a case, without ids, times and texts for people.
type fact struct {
	Files map[string]string `json:"files_before"`
	Steps []stepFact        `json:"steps"`
	// After is what is in the home: the fields of messages, and for other files nothing but their
	// names.
	After map[string]any `json:"files_after"`
}

// stepFact is what one command did. Lines are the objects that it printed as JSON.
type stepFact struct {
	Line  string   `json:"command"`
	Stdin string   `json:"stdin,omitempty"`
	Env   []string `json:"environment,omitempty"`
	Exit  int      `json:"exit"`
	JSON  []any    `json:"json,omitempty"`
	Text  []string `json:"text,omitempty"`
}

// TestReference runs every case and compares it with what the reference implementation was recorded
// to do: the same exit status, every key of its JSON with the same value, all of its files, and no
// other messages.
func TestReference(t *testing.T) {
	t.Parallel()
	recorded := readRecorded(t)
	for _, c := range referenceCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want, ok := recorded[c.name]
			if !ok {
				t.Fatalf("%s has no such case; record it with OACP_REFERENCE=CHECKOUT go test ./cmd/oacp -run TestReferenceRecord -update", recordedFile)
			}
			got := c.run(t, "oacp")
			err := compareFacts(want, got)
			switch {
			case c.differs == "" && err != nil:
				t.Error(err)
			case c.differs != "" && err == nil:
				t.Errorf("there is no difference any more, but the case says: %s", c.differs)
			case c.differs != "":
				for i, step := range got.Steps {
					if step.Exit != c.exits[i] {
						t.Errorf("oacp %s: exit status %d, want %d", step.Line, step.Exit, c.exits[i])
					}
				}
			}
		})
	}
}

// TestReferenceRecord checks that the reference implementation still does what was recorded. With
// -update, it records it.
func TestReferenceRecord(t *testing.T) {
	checkout := os.Getenv("OACP_REFERENCE")
	if checkout == "" {
		t.Skip("OACP_REFERENCE does not name a checkout of the reference implementation")
	}
	now := make(map[string]fact)
	for _, c := range referenceCases() {
		now[c.name] = c.run(t, referenceProgram()...)
	}
	if *update {
		data, err := json.MarshalIndent(now, "", "  ")
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(recordedFile), 0o755), os.WriteFile(recordedFile, append(data, '\n'), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	recorded := readRecorded(t)
	for name, got := range now {
		if want := recorded[name]; !reflect.DeepEqual(plain(want), plain(got)) {
			t.Errorf("%s: the reference did %v, but this is recorded: %v", name, plain(got), plain(want))
		}
	}
}

// referenceProgram returns the command line of the reference implementation, whose checkout must be
// in PYTHONPATH.
func referenceProgram() []string {
	return []string{cmp.Or(os.Getenv("PYTHON"), "python3"), "-m", "oacp.cli"}
}

func readRecorded(t *testing.T) map[string]fact {
	t.Helper()
	data, err := os.ReadFile(recordedFile)
	var recorded map[string]fact
	if err == nil {
		err = json.Unmarshal(data, &recorded)
	}
	if err != nil {
		t.Fatal(err)
	}
	return recorded
}

// run runs a case in a new home.
func (c referenceCase) run(t *testing.T, program ...string) fact {
	t.Helper()
	home := t.TempDir()
	inputs := make([]string, 0, len(c.files))
	for name, content := range c.files {
		path := filepath.Join(home, filepath.FromSlash(name))
		content = strings.ReplaceAll(content, "HOME", home)
		inputs = append(inputs, name, content)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range c.steps {
		inputs = append(inputs, step.line)
	}
	n := normalizer{home: home, inputs: strings.Join(inputs, "\n")}
	f := fact{Files: c.files}
	for _, step := range c.steps {
		f.Steps = append(f.Steps, step.run(t, n, program))
	}
	f.After = n.files(t)
	return f
}

func (s referenceStep) run(t *testing.T, n normalizer, program []string) stepFact {
	t.Helper()
	if s.remove != "" {
		found, err := filepath.Glob(filepath.Join(n.home, s.remove))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s matches nothing: %v", s.remove, err)
		}
		for _, path := range found {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	args := append(slices.Clone(program[1:]), splitLine(strings.ReplaceAll(s.line, "HOME", n.home))...)
	cmd := exec.CommandContext(t.Context(), program[0], args...)
	cmd.Dir = n.home
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + n.home, "OACP_HOME=" + n.home, "GORACE=atexit_sleep_ms=0",
		"PYTHONPATH=" + os.Getenv("OACP_REFERENCE"), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1",
	}, s.env...)
	cmd.Stdin = strings.NewReader(s.stdin)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	result := stepFact{Line: s.line, Stdin: s.stdin, Env: s.env, Exit: cmd.ProcessState.ExitCode()}
	if !strings.Contains(s.line, "--js") {
		result.Text = n.text(out.String())
		return result
	}
	for decoder := json.NewDecoder(&out); ; {
		var value any
		if err := decoder.Decode(&value); err != nil {
			break
		}
		result.JSON = append(result.JSON, n.value("", value))
	}
	sortObjects(result.JSON)
	return result
}

// splitLine splits a command line at spaces outside single quotes.
func splitLine(line string) []string {
	var words []string
	for _, match := range regexp.MustCompile(`'([^']*)'|(\S+?)='([^']*)'|\S+`).FindAllStringSubmatch(line, -1) {
		switch {
		case match[2] != "":
			words = append(words, match[2]+"="+match[3])
		case strings.HasPrefix(match[0], "'"):
			words = append(words, match[1])
		default:
			words = append(words, match[0])
		}
	}
	return words
}

// compareFacts returns an error if something that the reference did is missing or different.
func compareFacts(want, got fact) error {
	var problems []error
	for i, step := range want.Steps {
		ours := got.Steps[i]
		if ours.Exit != step.Exit {
			problems = append(problems, fmt.Errorf("oacp %s: exit status %d, want %d", step.Line, ours.Exit, step.Exit))
		}
		if !includes(plain(ours.JSON), plain(step.JSON)) && !onlyErrors(step, ours) {
			problems = append(problems, fmt.Errorf("oacp %s: printed %v, want %v", step.Line, plain(ours.JSON), plain(step.JSON)))
		}
		if !slices.Equal(ours.Text, step.Text) && !strings.HasPrefix(step.Line, "init ") && !strings.HasPrefix(step.Line, "add-agent ") {
			problems = append(problems, fmt.Errorf("oacp %s: printed %q, want %q", step.Line, ours.Text, step.Text))
		}
	}
	for name, content := range want.After {
		ours, ok := got.After[name]
		if !ok || !includes(plain(ours), plain(content)) {
			problems = append(problems, fmt.Errorf("%s holds %v, want %v", name, ours, content))
		}
	}
	for name := range got.After {
		if _, ok := want.After[name]; !ok && messagePath.MatchString(name) {
			problems = append(problems, fmt.Errorf("there is %s", name))
		}
	}
	return errors.Join(problems...)
}

// onlyErrors reports whether we print an error as JSON where the reference prints it only as text.
func onlyErrors(want, got stepFact) bool {
	return want.Exit != 0 && len(want.JSON) == 0 && !slices.ContainsFunc(got.JSON, func(value any) bool {
		object, ok := value.(map[string]any)
		return !ok || object["error"] == nil || object["event"] != nil
	})
}

// includes reports whether got has all that want has, and lists have nothing more.
func includes(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		for key, value := range want {
			ok = ok && includes(object[key], value)
		}
		return ok
	case []any:
		list, ok := got.([]any)
		ok = ok && len(list) == len(want)
		for i := range want {
			ok = ok && includes(list[i], want[i])
		}
		return ok
	}
	return reflect.DeepEqual(got, want)
}

// plain returns a value as it reads back from JSON.
func plain(value any) any {
	data, err := json.Marshal(value)
	var back any
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil {
		panic(err) // what was read from JSON and YAML can be written
	}
	return back
}

// TestSwitchingPage checks that each line of the page about switching names what tests it, and that
// it names every difference.
func TestSwitchingPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/switching.md")
	if err != nil {
		t.Fatal(err)
	}
	cases := make(map[string]referenceCase)
	for _, c := range referenceCases() {
		cases[c.name] = c
	}
	section, named := "", make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == " what" {
			continue
		}
		tests := 0
		for part := range strings.SplitSeq(cells[len(cells)-1], "; ") {
			if script := scriptLink.FindStringSubmatch(part); script != nil {
				tests++
				data, err := os.ReadFile("../../docs/" + script[1])
				if words := strings.TrimSpace(script[2]); err != nil || !strings.Contains(strings.ReplaceAll(string(data), "\n# ", " "), words) {
					t.Errorf("%s does not say %q (%v)", script[1], words, err)
				}
				continue
			}
			for _, match := range inTypewriter.FindAllStringSubmatch(part, -1) {
				tests++
				c, ok := cases[match[1]]
				if !ok {
					t.Errorf("there is no case %q", match[1])
				}
				if (c.differs != "") != (section != "The same") {
					t.Errorf("the case %q is under %q, and its difference is %q", c.name, section, c.differs)
				}
				named[c.name] = true
			}
		}
		if tests == 0 {
			t.Errorf("nothing tests this line: %s", line)
		}
	}
	for name, c := range cases {
		if c.differs != "" && !named[name] {
			t.Errorf("docs/switching.md does not name the difference %q", name)
		}
	}
}

var (
	scriptLink   = regexp.MustCompile(`\[\S+\]\((\.\./\S+)\): (.*)`)
	inTypewriter = regexp.MustCompile("`([^`]+)`")
)
