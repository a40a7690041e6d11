package agent

import "fmt"

// A release says which releases of a program a driver works with.
type release struct {
	program, oldest string
	// install and login tell people how to install the program and how to log in.
	install, login string
}

// notStarted says why a program ended instead of answering. Releases that are too old do not know
// the driver's protocol.
func (r *release) notStarted(err error, said string) error {
	return fmt.Errorf("%w: %s did not start: %w: %s; at least %s is needed; %s@latest",
		ErrUnavailable, r.program, err, reason(said), r.oldest, r.install)
}
