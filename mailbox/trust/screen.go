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

// Options returns the options of a workspace whose agents have keys in a home: what they send is signed if
// their settings ask for it, and what is not verified is held if their settings say signing.verify_mode:
// enforce. Every program that reads mailboxes opens workspaces with these options.
func Options(home func(*mailbox.Workspace) (string, error)) mailbox.Options {
	s := screen{known: make(map[schema.AgentName]screened)}
	return mailbox.Options{Home: home, Sign: sign, Screen: s.check}
}

// screen keeps the check of each agent as long as its files stay as they are.
type screen struct {
	mu    sync.Mutex
	known map[schema.AgentName]screened
}

type screened struct {
	stamp Stamp
	check mailbox.Check
}

// A Stamp tells two states of the files apart that say what an agent reads: its config.yaml, its pins, and the
// list of signed files.
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

// StampOf returns the present state of these files.
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

// newCheck returns the check of an agent that reads only verified messages, nil if it reads all.
func newCheck(w *mailbox.Workspace, agent schema.AgentName) mailbox.Check {
	mode, policyErr := ModeOf(w, agent)
	if mode != Enforce {
		return nil
	}
	pins, pinsErr := Pins(w, agent)
	keys := Keys(pins)
	return func(data []byte, own bool) *mailbox.HeldError {
		held := &mailbox.HeldError{Status: signing.Verify(data, keys, senderOf).Status}
		if held.Status == signing.Verified {
			if m, _ := validate.Decode(data); !own || m != nil && m.IsFor(agent) {
				return nil
			}
			held.Status, held.Reason = signing.Invalid, "it is signed, but not to "+string(agent)+": somebody copied it here"
			return held
		}
		held.Reason = outcomes[held.Status]
		switch { // an error may quote the file
		case policyErr != nil:
			held.Reason += fmt.Sprintf("; %s counts for nothing, as oacp doctor explains", filepath.Join(w.Dir(), configName(agent)))
		case pinsErr != nil:
			held.Reason += fmt.Sprintf("; %s counts for nothing, as oacp doctor explains", filepath.Join(w.Dir(), PinsName(agent)))
		}
		return held
	}
}

// outcomes say why a message is not verified, without a word that it holds.
var outcomes = map[signing.Status]string{
	signing.Unsigned:  "it is not signed",
	signing.Untrusted: "it is not signed by a pinned key",
	signing.Invalid:   "its signature is not good",
	signing.Revoked:   "the key that signed it is revoked",
}
