package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/project"
	"github.com/oacp-go/oacp/schema"
)

const (
	// ErrorsFile is the file in the workspace with the errors of hooks, because no session shows them.
	ErrorsFile = project.SessionsFolder + "/" + errorsName
	errorsName = "errors.log"
	// maxErrors is the size in bytes after which the file begins anew.
	maxErrors = 64 << 10
)

// A SessionsError reports that an agent has living sessions, which get its mail.
type SessionsError struct {
	Agent    schema.AgentName
	Sessions []Session
}

func (e *SessionsError) Error() string {
	var all []string
	for _, s := range e.Sessions {
		all = append(all, string(s.Program)+" in "+visible.Quote(s.Dir))
	}
	return fmt.Sprintf("a live session gets the mail of %s: %s", e.Agent, strings.Join(all, ", "))
}

// CheckNone returns a *SessionsError if the agent has living sessions.
func CheckNone(w *mailbox.Workspace, agent schema.AgentName) error {
	sessions, err := Sessions(w, agent)
	if err == nil && len(sessions) > 0 {
		err = &SessionsError{agent, sessions}
	}
	return err
}

// NoteError appends an error of a hook to a file in state/live, for people.
func NoteError(w *mailbox.Workspace, now time.Time, cause error) (err error) {
	dir, err := w.OpenStateFolder(project.SessionsFolder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if info, err := dir.Lstat(errorsName); err == nil && info.Size() > maxErrors {
		if err := dir.SetAside(errorsName, errorsName+".old"); err != nil {
			return err
		}
	}
	file, err := dir.OpenFile(errorsName, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s %s\n", now.UTC().Format(time.RFC3339), visible.Line(cause.Error()))
	return errors.Join(err, file.Close())
}

// Errors returns the lines that NoteError has written since a time, the oldest first.
func Errors(w *mailbox.Workspace, since time.Time) ([]string, error) {
	data, err := durable.ReadFile(w.Root(), w.Dir(), ErrorsFile, 2*maxErrors)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool {
		stamp, _, _ := strings.Cut(line, " ")
		at, err := time.Parse(time.RFC3339, stamp)
		return err != nil || at.Before(since)
	}), nil
}
