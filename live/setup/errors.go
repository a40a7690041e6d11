package setup

import (
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/internal/failure"
)

// Errors of settings that oacp does not change.
var (
	// ErrOtherServer is returned if something else is registered in the place of our MCP server.
	ErrOtherServer = errors.New("another MCP server is registered as oacp")
	// ErrChanged is returned by Apply if a file is not as it was when the plan was made.
	ErrChanged = errors.New("another program has changed it meanwhile")
	// ErrOutside is returned for a file of a project that is a link to a file outside of it.
	ErrOutside = errors.New("it is a link that leads out of the project")
	// ErrUnusual is returned for a config.toml whose servers are not in tables of their own.
	ErrUnusual = errors.New("the table mcp_servers is written in a way that oacp cannot change")
	// ErrAdded is returned for an MCP server with settings that a removal would lose.
	ErrAdded = errors.New("the MCP server oacp has settings that setup did not write")
	// ErrReadOnly is returned for a file or folder that must not be written.
	ErrReadOnly = errors.New("it is read-only")
	// ErrNoHome is returned if the environment does not name the folder of the user's settings.
	ErrNoHome = errors.New("HOME is not set")
)

// A positionError begins with a line and column of a file.
type positionError struct{ error }

func (e positionError) Unwrap() error { return e.error }

func atPosition(line, column int, err error) error {
	return positionError{fmt.Errorf("line %d, column %d: %w", line, column, err)}
}

// explain adds code and hint to an error.
func explain(err error) error {
	isPosition := func(err error) bool { _, ok := errors.AsType[positionError](err); return ok }
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	for _, known := range []struct {
		matches    func(error) bool
		code, hint string
	}{
		{is(ErrOtherServer), "other_server", "claude mcp remove oacp or codex mcp remove oacp takes it out; nothing was changed"},
		{isPosition, "bad_settings", "mend the file, and try again; nothing was changed"},
		{is(ErrUnusual), "bad_settings", "write a table [mcp_servers.NAME] for each server; nothing was changed"},
		{is(ErrAdded), "bad_settings", "take them out, and try again; nothing was changed"},
		{is(ErrOutside), "bad_settings", "replace the link by a file; nothing was changed"},
		{is(ErrReadOnly), "permission", "make it writable; nothing was changed"},
		{is(ErrChanged), "changed_meanwhile", "try again"},
		{is(ErrNoHome), "no_home", "set HOME, CLAUDE_CONFIG_DIR or CODEX_HOME"},
	} {
		if known.matches(err) {
			return &failure.Error{Code: known.code, Hint: known.hint, Err: err}
		}
	}
	return err
}
