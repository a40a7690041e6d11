package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/spelling"
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
	case i.ProjectFolders:
		f := i.add(name, SeverityWarning, "oacp doctor --fix makes it", "is missing")
		f.Mend = mend("made "+decisions, func() error { return i.w.MakeFolder(decisions) })
	}
	i.config(agent)
	if err == nil {
		i.policies(agent, records)
	}
}

// config checks an agent's config.yaml.
func (i *inspection) config(agent schema.AgentName) {
	name := string(agent) + "/" + project.ConfigName
	data, readErr := i.read(project.ConfigPath(agent))
	gives := "oacp run gives turns"
	switch mode, err := i.Autonomy(i.w, agent); {
	case err != nil && i.badMarker:
		gives = "oacp run does not start, see workspace.json"
	case err != nil:
		i.add(name, SeverityError, "oacp run does not start until that is mended", "%v", err)
		return
	case mode.Holds():
		gives = "oacp run holds all messages for a person"
	}
	switch {
	case errors.Is(readErr, fs.ErrNotExist):
		i.add(name, SeverityOK, "", "is absent: %s, and other tools wait for a person", gives)
	case readErr != nil:
		i.fail(name, readErr)
	default:
		i.verdict(name, configProblems(data), "is valid: "+gives)
	}
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

// autonomySection is what config.yaml says to tools of the reference implementation.
type autonomySection struct {
	Mode           project.Autonomy `yaml:"default_mode"`
	Thresholds     map[string]any   `yaml:"auto_review_thresholds"`
	Types          []schema.Type    `yaml:"allow_without_task_profile"`
	Repositories   []string         `yaml:"private_repo_allowlist"`
	TrustedSenders any              `yaml:"trusted_senders"`
	Grants         grants           `yaml:"continuation_grants"`
}

type grants struct {
	Enabled yaml.Node `yaml:"enabled"`
}

// configProblems says what is wrong with the section autonomy of a config.yaml.
func configProblems(data []byte) (problems []string) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var file struct {
		Autonomy *autonomySection `yaml:"autonomy"`
	}
	err := yaml.Unmarshal(data, &file)
	if mistyped, ok := errors.AsType[*yaml.TypeError](err); ok {
		problems = mistyped.Errors
	} else if err != nil {
		return []string{err.Error()}
	}
	section := file.Autonomy
	if section == nil {
		return problems
	}
	if section.Mode == "" {
		problem("autonomy.default_mode is missing")
	}
	if section.Thresholds != nil {
		problems = append(problems, thresholdProblems(section.Thresholds)...)
	} else if section.Mode == project.AutonomyReview {
		problem("autonomy.auto_review_thresholds is missing; auto_review needs it")
	}
	for _, t := range section.Types {
		if !t.Known() {
			problem("autonomy.allow_without_task_profile: %q is not a message type", t)
		}
	}
	form := regexp.MustCompile(`^[\w.-]+/[\w.-]+$`)
	for _, name := range section.Repositories {
		if !form.MatchString(name) {
			problem("autonomy.private_repo_allowlist: %q is not of the form owner/repo", name)
		}
	}
	if section.TrustedSenders != nil {
		problem("autonomy.trusted_senders is not a setting; trust in senders is a matter of signatures")
	}
	// The library takes a quoted yes for true, too; other tools do not.
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
	if enabled := section.Grants.Enabled; enabled.Style&quoted != 0 || enabled.Decode(new(bool)) != nil {
		problem("autonomy.continuation_grants.enabled is neither true nor false")
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

// policies reports recorded decisions that name rules that do not exist.
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
		i.add(name, SeverityWarning, "", "%s with rules that do not exist; the first: %s", spelling.Count(len(orphaned), "decision"), orphaned[0])
		return
	}
	i.add(name, SeverityOK, "", "all decisions name rules that exist")
}
