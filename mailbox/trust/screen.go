package trust

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/validate"
)

// Options returns the options of a workspace that signs what agents send if their settings ask for it, and
// holds unverified messages if their settings say signing.verify_mode: enforce. Home returns the folder
// with the keys. Every program that reads mailboxes opens workspaces with these options.
func Options(home func(*mailbox.Workspace) (string, error)) mailbox.Options {
	s := screen{known: make(map[schema.AgentName]screened)}
	return mailbox.Options{Home: home, Sign: sign, Screen: s.check}
}

// screen caches the check of each agent until its files change.
type screen struct {
	mu    sync.Mutex
	known map[schema.AgentName]screened
}

type screened struct {
	stamp Stamp
	check mailbox.Check
}

// A Stamp identifies a state of the files that decide which messages an agent reads: its config.yaml, its
// pins, and the list of signed policies.
type Stamp [3]struct {
	modified time.Time
	size     int64
}

// check implements mailbox.ScreenFunc for one workspace.
func (s *screen) check(w *mailbox.Workspace, agent schema.AgentName) mailbox.Check {
	stamp := StampOf(w, agent)
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.known[agent]
	if !ok || known.stamp != stamp {
		known = screened{stamp, newCheck(w, agent)}
		s.known[agent] = known
	}
	return known.check
}

// StampOf returns the stamp of an agent's files.
func StampOf(w *mailbox.Workspace, agent schema.AgentName) (s Stamp) {
	home, _ := w.Home() // newCheck reports errors
	for i, look := range []func() (fs.FileInfo, error){
		func() (fs.FileInfo, error) { return w.Root().Lstat(configName(agent)) },
		func() (fs.FileInfo, error) { return w.Root().Lstat(PinsName(agent)) },
		func() (fs.FileInfo, error) { return os.Lstat(filepath.Join(home, enrollmentName)) },
	} {
		if info, err := look(); err == nil {
			s[i].modified, s[i].size = info.ModTime().Round(0).UTC(), info.Size()
		}
	}
	return s
}

// newCheck returns the check of an agent that reads only verified messages, or nil if it reads all.
func newCheck(w *mailbox.Workspace, agent schema.AgentName) mailbox.Check {
	mode, policyErr := ModeOf(w, agent)
	if mode != Enforce {
		return nil
	}
	pins, pinsErr := Pins(w, agent)
	keys := keysOf(pins)
	ignored := ""
	switch { // the errors themselves may quote the file
	case policyErr != nil:
		ignored = ignoredFile(w, configName(agent))
	case pinsErr != nil:
		ignored = ignoredFile(w, PinsName(agent))
	}
	return func(data []byte, own bool) *mailbox.HeldError {
		held := &mailbox.HeldError{Status: signing.Verify(data, keys, senderOf).Status}
		if held.Status == signing.Verified {
			if m, _ := validate.Decode(data); !own || m != nil && m.IsFor(agent) {
				return nil
			}
			held.Status, held.Reason = signing.Invalid, copiedTo(agent)
			return held
		}
		held.Reason = outcomes[held.Status] + ignored
		return held
	}
}

func ignoredFile(w *mailbox.Workspace, name string) string {
	return fmt.Sprintf("; %s counts for nothing, as oacp doctor explains", filepath.Join(w.Dir(), filepath.FromSlash(name)))
}

// outcomes say why a message is not verified, without quoting the message.
var outcomes = map[signing.Status]string{
	signing.Unsigned:  "it is not signed",
	signing.Untrusted: "it is not signed by a pinned key",
	signing.Invalid:   "its signature is not good",
	signing.Revoked:   "the key that signed it is revoked",
}
