package setup

import (
	"errors"
	"fmt"

	"github.com/oacp-go/oacp/internal/failure"
)

// Errors of settings that oacp does not change.
var (
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

// A PositionError says where in a file something is wrong.
type PositionError struct {
	Line, Column int
	Err          error
}

func (e *PositionError) Error() string {
	return fmt.Sprintf("line %d, column %d: %v", e.Line, e.Column, e.Err)
}

// Unwrap returns Err.
func (e *PositionError) Unwrap() error { return e.Err }

// An OtherServerError says that another MCP server is registered as oacp.
type OtherServerError struct {
	// Command is what starts it, if that is known.
	Command string
}

// Error names the server.
func (e *OtherServerError) Error() string {
	if e.Command == "" {
		return "another MCP server is registered as oacp"
	}
	return "another MCP server is registered as oacp: " + e.Command
}

// explain adds code and hint to an error.
func explain(err error) error {
	isPosition := func(err error) bool { _, ok := errors.AsType[*PositionError](err); return ok }
	isServer := func(err error) bool { _, ok := errors.AsType[*OtherServerError](err); return ok }
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	for _, known := range []struct {
		matches    func(error) bool
		code, hint string
	}{
		{isServer, "other_server", "claude mcp remove oacp or codex mcp remove oacp takes it out; nothing was changed"},
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
