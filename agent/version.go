package agent

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/oacp-go/oacp/internal/processgroup"
)

// version is the number of a release: major, minor, patch.
type version [3]int

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

func (v version) before(other version) bool { return slices.Compare(v[:], other[:]) < 0 }

var versionPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(\d{1,6})\.(\d{1,6})\.(\d{1,6})`)
})

// parseVersion finds a version in what a program says about itself.
func parseVersion(text string) (version, bool) {
	match := versionPattern().FindStringSubmatch(text)
	if match == nil {
		return version{}, false
	}
	var v version
	for i := range v {
		v[i], _ = strconv.Atoi(match[i+1]) // the pattern matches only short numbers
	}
	return v, true
}

// A release says which releases of a program a driver works with.
type release struct {
	program string
	oldest  version
	// install and login tell people how to install the program and how to log in.
	install, login string
}

func (r *release) tooOld(found version) error {
	return fmt.Errorf("%w: this is %s %v, and at least %v is needed; %s@latest", ErrUnavailable, r.program, found, r.oldest, r.install)
}

// versionLimit is how long a program may take to tell its version.
const versionLimit = 10 * time.Second

// askVersion runs the program of the command with --version. It reports false if it learns no
// version in time.
func (c *child) askVersion(ctx context.Context, command []string) (version, bool) {
	defer processgroup.Hold()()
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.spec.path, append(slices.Clone(command[1:]), "--version")...)
	cmd.Env = environment(c.spec.env)
	cmd.WaitDelay = pipeDelay
	processgroup.Lead(cmd, syscall.SIGKILL)
	cmd.Cancel = func() error {
		processgroup.Kill(cmd.Process)
		return nil
	}
	out, err := cmd.Output()
	if err != nil {
		return version{}, false
	}
	return parseVersion(string(out))
}
