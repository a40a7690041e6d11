package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// blocksOf returns the code blocks of a language in a page of the documentation, below a heading.
func blocksOf(t *testing.T, page, heading, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut("\n"+string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("docs/%s lacks %s", page, heading)
	}
	if strings.HasPrefix(heading, "## ") {
		section, _, _ = strings.Cut(section, "\n## ")
	}
	parts := strings.Split(section, "\n```")
	for _, part := range parts {
		if block, ok := strings.CutPrefix(part, language+"\n"); ok {
			blocks = append(blocks, block+"\n")
		}
	}
	return blocks
}

// TestDocumentedChecks checks that the workflows and the configuration of hooks in docs/git-checks.md are
// YAML of the form that their readers want, and that validate_changed.txtar runs their commands.
func TestDocumentedChecks(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("testdata", "script", "validate_changed.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, block := range blocksOf(t, "git-checks.md", "# Checking messages in CI and before commits", "yaml") {
		var file struct {
			On   any
			Jobs map[string]struct {
				RunsOn string `yaml:"runs-on"`
				Steps  []struct {
					Uses, Run string
					With      map[string]any
				}
			}
			Repos []struct {
				Repo  string
				Hooks []struct {
					ID, Name, Entry, Language string
					PassFilenames             *bool `yaml:"pass_filenames"`
					AlwaysRun                 bool  `yaml:"always_run"`
				}
			}
		}
		if err := yaml.Unmarshal([]byte(block), &file); err != nil {
			t.Errorf("%v in:\n%s", err, block)
		}
		for name, job := range file.Jobs {
			if file.On == nil || job.RunsOn == "" || len(job.Steps) == 0 || job.Steps[0].With["fetch-depth"] != 0 {
				t.Errorf("the job %s lacks something:\n%s", name, block)
				continue
			}
			commands = append(commands, job.Steps[len(job.Steps)-1].Run)
		}
		for _, repo := range file.Repos {
			for _, hook := range repo.Hooks {
				if repo.Repo != "local" || hook.ID == "" || hook.Name == "" || hook.Language != "system" || hook.PassFilenames == nil || *hook.PassFilenames || !hook.AlwaysRun {
					t.Errorf("the hook lacks something:\n%s", block)
				}
				commands = append(commands, hook.Entry)
			}
		}
	}
	if len(commands) != 3 {
		t.Fatalf("found the commands %q, want three", commands)
	}
	for _, command := range commands {
		if !strings.HasPrefix(command, "oacp validate --changed ") || !strings.Contains(string(script), command+"\n") {
			t.Errorf("validate_changed.txtar does not run %s", command)
		}
	}
}

// TestDocumentedJob checks that init-git-ci.txtar runs the commands of the job that handles mail.
func TestDocumentedJob(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("testdata", "script", "init-git-ci.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, block := range blocksOf(t, "git.md", "## A laptop and CI", "yaml") {
		var file struct {
			Jobs struct {
				Mail struct{ Steps []struct{ Run string } }
			}
		}
		if err := yaml.Unmarshal([]byte(block), &file); err != nil {
			t.Errorf("%v in:\n%s", err, block)
		}
		for _, step := range file.Jobs.Mail.Steps {
			if step.Run == "" {
				continue
			}
			if found++; !strings.Contains(string(script), "\nexec "+step.Run+"\n") {
				t.Errorf("the script does not run %s", step.Run)
			}
		}
	}
	if found != 2 {
		t.Errorf("found %d commands, want 2", found)
	}
}
