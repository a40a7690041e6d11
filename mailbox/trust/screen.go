package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
	"github.com/oacp-go/oacp/validate"
)

// Options returns the options of a workspace that signs what agents send if their settings ask for it, and
// holds unverified messages if their settings say signing.verify_mode: enforce. Home returns the
// user's home. Every program that reads mailboxes opens workspaces with these options.
func Options(home func() (string, error)) mailbox.Options {
	s := screen{known: make(map[schema.AgentName]screened)}
	return mailbox.Options{Home: home, Sign: sign, Screen: s.of}
}

// screen caches the proof of each agent until its files change.
type screen struct {
	mu    sync.Mutex
	known map[schema.AgentName]screened
}

type screened struct {
	stamp Stamp
	proof *proof
}

// A Stamp identifies a state of the files that decide which messages an agent reads: its config.yaml, its
// pins, the list of signed policies, and the last message that got another turn.
type Stamp [4]struct {
	modified time.Time
	size     int64
}

// of implements mailbox.ScreenFunc for one workspace.
func (s *screen) of(w *mailbox.Workspace, agent schema.AgentName) mailbox.Screen {
	stamp := StampOf(w, agent)
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.known[agent]
	if !ok || known.stamp != stamp {
		known = screened{stamp, newProof(w, agent)}
		s.known[agent] = known
	}
	if known.proof == nil {
		return nil
	}
	return known.proof
}

// StampOf returns the stamp of an agent's files.
func StampOf(w *mailbox.Workspace, agent schema.AgentName) (s Stamp) {
	home, _ := w.Home() // newProof reports errors
	for i, look := range []func() (fs.FileInfo, error){
		func() (fs.FileInfo, error) { return w.Root().Lstat(configName(agent)) },
		func() (fs.FileInfo, error) { return w.Root().Lstat(PinsName(agent)) },
		func() (fs.FileInfo, error) { return os.Lstat(filepath.Join(home, enrollmentName)) },
		func() (fs.FileInfo, error) {
			return os.Lstat(filepath.Join(home, handledName, string(agent), reopenedName))
		},
	} {
		if info, err := look(); err == nil {
			s[i].modified, s[i].size = info.ModTime().Round(0).UTC(), info.Size()
		}
	}
	return s
}

// A proof implements mailbox.Screen: a message must be proven to be from its sender.
type proof struct {
	w     *mailbox.Workspace
	agent schema.AgentName
	home  string
	pins  signing.Pins
	// ignored says which of the agent's files counts for nothing.
	ignored string
}

// newProof returns the proof of an agent that reads only verified messages, or nil if it reads all.
func newProof(w *mailbox.Workspace, agent schema.AgentName) *proof {
	mode, modeErr := ModeOf(w, agent)
	if mode != Enforce {
		return nil
	}
	pins, pinsErr := Pins(w, agent)
	home, homeErr := w.Home()
	p := &proof{w: w, agent: agent, home: home, pins: keysOf(pins)}
	switch { // the errors themselves may quote the file
	case modeErr != nil:
		p.ignored = ignoredFile(w, configName(agent))
	case pinsErr != nil:
		p.ignored = ignoredFile(w, PinsName(agent))
	case homeErr != nil:
		p.ignored = "; the folder of its keys cannot be found"
	}
	return p
}

// verify verifies a file with the pins of the agent and, for what it has sent itself, with its keys on this machine.
func (p *proof) verify(data []byte, own bool) signing.Result {
	pins := p.pins
	if own && p.home != "" {
		pins = maps.Clone(pins)
		stubs, err := signing.NewStore(p.home).Stubs(p.agent)
		if err != nil { // no key counts
			return signing.Result{Status: signing.Untrusted, Reason: err.Error()}
		}
		for _, stub := range stubs {
			if _, pinned := pins[stub.KeyID]; !pinned {
				key, _ := stub.JWK.PublicKey() // Stubs has checked it
				pins[stub.KeyID] = signing.Pin{Agent: p.agent, Key: key}
			}
		}
	}
	return signing.Verify(data, pins, senderOf)
}

// Check implements mailbox.Screen.
func (p *proof) Check(data []byte, owner schema.AgentName, box mailbox.Box) *mailbox.HeldError {
	own := box == mailbox.Outbox && owner == p.agent
	r := p.verify(data, own)
	if r.Status != signing.Verified {
		return &mailbox.HeldError{Status: r.Status, Reason: outcomes[r.Status] + p.ignored}
	}
	held := &mailbox.HeldError{Status: signing.Invalid}
	switch m, _ := validate.Decode(data); {
	case box == mailbox.Outbox && r.Sender != owner:
		held.Reason = fmt.Sprintf("it is signed by %s, but in the outbox of %s: somebody copied it there", r.Sender, owner)
	case box != mailbox.Outbox && owner == p.agent && (m == nil || !m.IsFor(p.agent)):
		held.Reason = copiedTo(p.agent)
	case box == mailbox.Inbox && owner == p.agent:
		if held.Reason = p.handled(r.Digest); held.Reason == "" {
			return nil
		}
		held.Again = true
	default:
		return nil
	}
	return held
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

// HeldNotes says which recipients of a message that was sent will hold it, and why.
func HeldNotes(w *mailbox.Workspace, m *schema.Message) (notes []string) {
	for _, to := range m.To {
		p := newProof(w, to)
		if p == nil {
			continue
		}
		held := mailbox.HeldError{Agent: to, Status: signing.Unsigned}
		if m.Auth != "" {
			held.Status = p.verify([]byte(m.File), false).Status
		}
		if held.Status == signing.Unsigned || held.Status != signing.Verified && p.ignored == "" {
			notes = append(notes, fmt.Sprintf("%s reads only verified messages, and holds this one: %s; %s",
				to, outcomes[held.Status], strings.Replace(held.Remedy(), "SENDER", string(m.From), 1)))
		}
	}
	return notes
}

var errNoHome = errors.New("there is no folder for what agents have handled")
