package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

// autonomy checks an agent's config.yaml, and the record of what it accepted by itself.
func (i *inspection) autonomy(agent schema.AgentName) {
	i.category = categoryAutonomy
	decisions := project.DecisionsName(agent)
	records, err := i.names(decisions)
	name := strings.TrimPrefix(decisions, agentsName+"/")
	switch {
	case err == nil:
		i.add(name, SeverityOK, "", "is present")
	case !errors.Is(err, fs.ErrNotExist):
		i.fail(name, err)
	case i.Whole:
		f := i.add(name, SeverityWarning, "oacp doctor --fix makes it", "is missing")
		f.Mend = mend("made "+decisions, func() error { return i.w.MakeFolder(decisions) })
	}
	i.config(agent)
	if err == nil {
		i.policies(agent, records)
	}
}

func (i *inspection) config(agent schema.AgentName) {
	name := string(agent) + "/" + project.ConfigName
	data, err := i.read(project.ConfigPath(agent))
	if errors.Is(err, fs.ErrNotExist) {
		i.add(name, SeverityOK, "", "is absent: oacp run gives turns, and other tools wait for a person")
		return
	}
	var file map[string]any
	if err == nil {
		err = yaml.Unmarshal(data, &file)
	}
	if err != nil {
		i.add(name, SeverityError, "", "cannot be read: %v", err)
		return
	}
	section, _ := file["autonomy"].(map[string]any)
	run, _ := file["run"].(map[string]any)
	mode := run["autonomy"]
	if mode == nil {
		mode = section["default_mode"]
	}
	good := "is valid: oacp run gives turns"
	if autonomy, _ := mode.(string); project.Autonomy(autonomy).Holds() {
		good = "is valid: oacp run holds all messages for a person"
	}
	if section["default_mode"] == string(project.AutonomyAuto) {
		good += "; tools that do not know the mode auto wait for a person"
	}
	i.verdict(name, configProblems(file), good)
}

// thresholds are the settings of auto_review_thresholds with the values that they may have; none
// means a number.
var thresholds = []struct {
	name   string
	values []string
}{
	{"max_estimated_minutes", nil},
	{"max_expected_files_touched", nil},
	{"auth_config_or_secrets", []string{"pause"}},
	{"dependency_changes", []string{"pause"}},
	{"destructive_ops", []string{"pause"}},
	{"external_side_effects", []string{"allow", "allow_pr_artifacts", "pause"}},
	{"git_push_or_deploy", []string{"pause"}},
	{"public_visibility", []string{"pause"}},
}

// configProblems says what is wrong with the sections autonomy and run of a config.yaml.
func configProblems(file map[string]any) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if run, ok := file["run"].(map[string]any); ok && run["autonomy"] != nil {
		if _, err := project.ParseAutonomy(fmt.Sprint(run["autonomy"])); err != nil {
			problem("run.autonomy: %v", err)
		}
	}
	if file["autonomy"] == nil {
		return problems
	}
	section, ok := file["autonomy"].(map[string]any)
	if !ok {
		problem("autonomy is not a mapping")
		return problems
	}
	mode := section["default_mode"]
	if mode == nil {
		problem("autonomy.default_mode is missing")
	} else if _, err := project.ParseAutonomy(fmt.Sprint(mode)); err != nil {
		problem("autonomy.default_mode: %v", err)
	}
	switch limits, ok := section["auto_review_thresholds"].(map[string]any); {
	case ok:
		problems = append(problems, thresholdProblems(limits)...)
	case section["auto_review_thresholds"] != nil:
		problem("autonomy.auto_review_thresholds is not a mapping")
	case mode == string(project.AutonomyReview):
		problem("autonomy.auto_review_thresholds is missing; auto_review needs it")
	}
	for _, item := range listOf(section, "allow_without_task_profile", problem) {
		if _, err := schema.ParseType(fmt.Sprint(item)); err != nil {
			problem("autonomy.allow_without_task_profile: %v", err)
		}
	}
	for _, item := range listOf(section, "private_repo_allowlist", problem) {
		if text, _ := item.(string); !isRepository(text) {
			problem("autonomy.private_repo_allowlist: %v is not of the form owner/repo", item)
		}
	}
	if _, there := section["trusted_senders"]; there {
		problem("autonomy.trusted_senders is not a setting; trust in senders is a matter of signatures")
	}
	switch grants, ok := section["continuation_grants"].(map[string]any); {
	case ok && grants["enabled"] != nil:
		if _, ok := grants["enabled"].(bool); !ok {
			problem("autonomy.continuation_grants.enabled is neither true nor false")
		}
	case !ok && section["continuation_grants"] != nil:
		problem("autonomy.continuation_grants is not a mapping")
	}
	return problems
}

func thresholdProblems(limits map[string]any) (problems []string) {
	for _, t := range thresholds {
		name, value := "autonomy.auto_review_thresholds."+t.name, limits[t.name]
		number, isNumber := value.(int)
		switch {
		case value == nil:
			problems = append(problems, name+" is missing")
		case t.values == nil && (!isNumber || number < 0):
			problems = append(problems, name+" is not a number from 0")
		case t.values != nil && !slices.Contains(t.values, fmt.Sprint(value)):
			problems = append(problems, fmt.Sprintf("%s is not one of %s", name, strings.Join(t.values, ", ")))
		}
	}
	return problems
}

// listOf returns the items of a setting that is a list or absent.
func listOf(section map[string]any, name string, problem func(string, ...any)) []any {
	items, ok := section[name].([]any)
	if !ok && section[name] != nil {
		problem("autonomy.%s is not a list", name)
	}
	return items
}

// isRepository reports whether the text has the form owner/repo.
func isRepository(text string) bool {
	owner, name, found := strings.Cut(text, "/")
	return found && owner != "" && name != "" && !strings.ContainsFunc(owner+name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r))
	})
}

// policies reports decisions that name rules that do not exist any more.
func (i *inspection) policies(agent schema.AgentName, records []string) {
	var orphaned []string
	for _, record := range records {
		if path.Ext(record) != ".yaml" {
			continue
		}
		var decision struct {
			Policy string `yaml:"policy_path"`
		}
		name := project.DecisionsName(agent) + "/" + record
		data, err := i.read(name)
		if err != nil || yaml.Unmarshal(data, &decision) != nil || decision.Policy == "" {
			continue
		}
		if info, err := i.w.Root().Stat(decision.Policy); err != nil || !info.Mode().IsRegular() {
			orphaned = append(orphaned, name)
		}
	}
	name := string(agent) + "/autonomy-policy-refs"
	if len(orphaned) > 0 {
		i.add(name, SeverityWarning, "", "%d decisions name rules that do not exist, the first in %s", len(orphaned), orphaned[0])
		return
	}
	i.add(name, SeverityOK, "", "all decisions name rules that exist")
}
