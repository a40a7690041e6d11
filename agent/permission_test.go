package agent

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPermitsNothing checks which drivers refuse PermitNothing because they cannot guarantee it, and what codex is told.
func TestPermitsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"claude": {}, "codex": {}, "echo": {},
		"exec": {Options{Command: []string{"a"}}, "the driver exec cannot keep"},
		"acp":  {Options{Command: []string{"gemini"}}, "the driver acp cannot keep"},
		"ash":  {Options{Socket: "/tmp/s"}, "the driver ash cannot keep"},
	} {
		kind, err := FindKind(name)
		if err != nil {
			t.Fatal(err)
		}
		test.options.Allow = PermitNothing
		if err := kind.Check(test.options); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		test.options.Args = []string{"--dangerously-skip-permissions"}
		if err := kind.Check(test.options); err == nil {
			t.Errorf("%s takes further arguments", name)
		}
		test.options.Args, test.options.Command = nil, []string{name, "--dangerously-skip-permissions"}
		if err := kind.Check(test.options); err == nil {
			t.Errorf("%s takes a command with arguments", name)
		}
	}
}

// TestInherit checks which variables of this process a program has.
func TestInherit(t *testing.T) {
	for _, name := range []string{"OACP_MCP_TOKEN", "OACP_HOME", "ANTHROPIC_API_KEY", "LC_TIME", "MY_TOKEN"} {
		t.Setenv(name, "x")
	}
	for name, test := range map[string]struct {
		inherit Inherit
		want    string
	}{
		"all":         {Inherit{}, "OACP_HOME ANTHROPIC_API_KEY LC_TIME MY_TOKEN PATH"},
		"clean":       {Inherit{Clean: true}, "OACP_HOME LC_TIME PATH"},
		"clean, with": {Inherit{Clean: true, Add: []string{"MY_TOKEN", "NEW=a,b=c", "MISSING"}}, "OACP_HOME LC_TIME MY_TOKEN PATH NEW"},
		"a token":     {Inherit{Add: []string{"OACP_MCP_TOKEN"}}, "OACP_MCP_TOKEN OACP_HOME ANTHROPIC_API_KEY LC_TIME MY_TOKEN PATH"},
	} {
		o := Options{Inherit: test.inherit, Env: []string{"OACP_AGENT=codex"}}
		variables := o.environment([]string{"OACP_MESSAGE_ID=m"})
		for _, candidate := range []string{"OACP_MCP_TOKEN", "OACP_HOME", "ANTHROPIC_API_KEY", "LC_TIME", "MY_TOKEN", "PATH", "NEW", "MISSING"} {
			has := slices.ContainsFunc(variables, func(v string) bool { return strings.HasPrefix(v, candidate+"=") })
			if want := slices.Contains(strings.Fields(test.want), candidate); has != want {
				t.Errorf("%s: %s is there: %v, want %v", name, candidate, has, want)
			}
		}
		if !slices.Contains(variables, "OACP_AGENT=codex") || !slices.Contains(variables, "OACP_MESSAGE_ID=m") || o.lookupVariable("PATH") != os.Getenv("PATH") {
			t.Errorf("%s: %q lacks the variables of the turn", name, variables)
		}
	}
}

func TestPermission(t *testing.T) {
	for text, want := range map[string]Permission{"": PermitOwn, "none": PermitNothing, "own": PermitOwn, "edits": PermitEdits, "all": PermitAll} {
		var got Permission
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q parses as %q (%v), want %q", text, got, err, want)
		}
	}
	if got, err := ParsePermission("everything"); err == nil {
		t.Errorf("an unknown permission parses as %q, want an error", got)
	}
}
