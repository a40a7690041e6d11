package setup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/oacp-go/oacp/internal/failure"
)

// Errors of settings that oacp does not change.
var (
	errOtherServer = refusal("other_server", "another MCP server is registered as oacp",
		"claude mcp remove oacp, or codex mcp remove oacp, removes it; nothing was changed")
	// errUnusual is for a config.toml whose servers are not in tables of their own.
	errUnusual = refusal("bad_settings", "the table mcp_servers is written in a way that oacp cannot change",
		"write a table [mcp_servers.NAME] for each server; nothing was changed")
	errOutside  = refusal("bad_settings", "it is a link that leads out of the project", "replace the link with a file; nothing was changed")
	errReadOnly = refusal("permission", "it is read-only", "make it writable; nothing was changed")
	errChanged  = refusal("changed_meanwhile", "another program changed it in the meantime", "try again")
	errNoHome   = refusal("no_home", "HOME is not set", "set HOME, CLAUDE_CONFIG_DIR or CODEX_HOME")
)

const mend = "mend the file, and try again; nothing was changed"

func refusal(code, text, hint string) *failure.Error {
	return &failure.Error{Code: code, Hint: hint, Err: errors.New(text)}
}

// A kindError reports that a JSON value is not an object or array as it must be.
type kindError struct{ field, want string }

func (e *kindError) Error() string { return cmp.Or(e.field, "the file") + ": want " + e.want }

// inField adds the name of a field to the error of a value in it.
func inField(name string, err error) error {
	if kind, ok := errors.AsType[*kindError](err); ok {
		return &kindError{strings.TrimSuffix(name+"."+kind.field, "."), kind.want}
	}
	return err
}

// invalid is the error of a file that is wrong at an offset.
func invalid(data []byte, offset int, problem string) error {
	before := data[:offset]
	return invalidAt(bytes.Count(before, []byte("\n"))+1, offset-bytes.LastIndexByte(before, '\n'), problem)
}

func invalidAt(line, column int, problem string) error {
	return refusal("bad_settings", fmt.Sprintf("line %d, column %d: %s", line, column, problem), mend)
}
