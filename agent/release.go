package agent

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
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

// check returns an error if a program that tells its version is too old.
func (r *release) check(told string) error {
	if v, ok := parseVersion(told); ok && v != (version{}) && v.before(r.oldest) { // zero was built from source
		return fmt.Errorf("%w: this is %s %v, and %s", ErrUnavailable, r.program, v, r.needed())
	}
	return nil
}

func (r *release) needed() string {
	return fmt.Sprintf("at least %v is needed; %s@latest", r.oldest, r.install)
}

// notStarted says why a program ended instead of answering. Releases that are too old do not know
// the driver's protocol.
func (r *release) notStarted(err error, said string) error {
	return fmt.Errorf("%w: %s did not start: %w: %s; %s", ErrUnavailable, r.program, err, reason(said), r.needed())
}
