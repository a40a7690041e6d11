package trust

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// badSettings is the error of an agent whose settings for signing cannot be used. It then sends nothing, because it may have to
// sign the message.
func badSettings(err error) error {
	return failure.Wrap("bad_settings", err,
		"under signing:, sign_messages is true or false, verify_mode off, warn or enforce, and kid the id of a key; nothing was sent")
}

// settings are the section signing of an agent's configuration.
type settings struct {
	Sign  yaml.Node `yaml:"sign_messages"`
	KeyID Optional  `yaml:"kid"`
	Mode  Mode      `yaml:"verify_mode"`
}

// readSettings reads the settings of an agent, which are the zero value if there is no file or no section
// signing in it. The error may be a *FileError.
func readSettings(w *mailbox.Workspace, agent schema.AgentName) (full string, s settings, err error) {
	full, data, err := readPolicy(w, agent, signing.ReceiverConfig)
	if err != nil || !bytes.Contains(data, []byte("signing")) && !bytes.Contains(data, []byte("verify_mode")) {
		return full, s, err // most files: parsing them would take time
	}
	var file struct {
		Signing yaml.Node `yaml:"signing"`
		Mode    yaml.Node `yaml:"verify_mode"`
	}
	err = yaml.Unmarshal(data, &file)
	switch {
	case err != nil:
	case !file.Mode.IsZero():
		err = fmt.Errorf("line %d: verify_mode belongs under signing", file.Mode.Line)
	case file.Signing.IsZero() || file.Signing.ShortTag() == "!!null":
	case file.Signing.Kind != yaml.MappingNode:
		err = errors.New("signing is not a mapping of settings")
	default:
		err = file.Signing.Decode(&s)
	}
	s.Mode = Mode(strings.ToLower(strings.TrimSpace(string(s.Mode))))
	if err == nil && s.Mode != "" && !slices.Contains([]Mode{Off, Warn, Enforce}, s.Mode) {
		err = fmt.Errorf("signing.verify_mode is %q; want off, warn or enforce", s.Mode)
	}
	if err != nil {
		err = &FileError{fmt.Errorf("%s: %w", full, err)}
	}
	return full, s, err
}

// sign implements mailbox.SignFunc: it signs with the sender's keys if its settings or the caller ask for it.
// Errors may be a *signing.NoKeyError or a *signing.KeyFileError.
func sign(w *mailbox.Workspace, m *schema.Message, file []byte, asked bool) ([]byte, error) {
	if m.From == mailbox.Postmaster {
		return file, nil // not an agent, so it has no keys
	}
	always, id, err := signSettings(w, m.From)
	if err != nil || !asked && !always {
		return file, err
	}
	home, err := w.Home()
	if err != nil {
		return nil, err
	}
	keys, err := signing.NewStore(home).Load(m.From, id)
	if err != nil {
		return nil, err
	}
	signed, err := signing.Sign(file, keys...)
	if err == nil && len(signed) > schema.MaxFileSize {
		err = fmt.Errorf("%w: over %d bytes with the signature", schema.ErrTooLarge, schema.MaxFileSize)
	}
	if err != nil {
		return nil, err
	}
	_, m.Auth, _ = signing.Split(signed) // Sign has just written it
	m.File = string(signed)
	return signed, nil
}

// CanSign reports whether an agent has a key, and no setting that says whether it signs.
func CanSign(w *mailbox.Workspace, agent schema.AgentName) bool {
	home, err := w.Home()
	if err != nil {
		return false
	}
	keys, err := signing.NewStore(home).List(agent)
	if err != nil || len(keys) == 0 {
		return false
	}
	_, s, err := readSettings(w, agent)
	return err == nil && s.Sign.IsZero()
}

// CheckSettings returns an error if the settings for signing of an agent cannot be used.
func CheckSettings(w *mailbox.Workspace, agent schema.AgentName) error {
	_, _, err := signSettings(w, agent)
	return err
}

// signSettings returns whether an agent signs everything that it sends, and the key that it signs with,
// empty for all its keys. An agent that reads only verified messages signs, because it reads its own, too.
func signSettings(w *mailbox.Workspace, agent schema.AgentName) (always bool, id signing.KeyID, err error) {
	full, s, err := readSettings(w, agent)
	if _, ok := errors.AsType[*FileError](err); ok {
		return false, "", badSettings(err)
	}
	always = s.Mode == Enforce
	if err == nil && !s.Sign.IsZero() {
		if always, err = parseBool(&s.Sign); err == nil && !always && s.Mode == Enforce {
			err = errors.New("with verify_mode: enforce, an agent signs what it sends; remove the line")
		}
		if err != nil {
			err = badSettings(fmt.Errorf("%s: signing.sign_messages: %w", full, err))
		}
	}
	if err == nil && s.KeyID != "" {
		id, err = signing.ParseKeyID(string(s.KeyID))
		if err != nil {
			err = badSettings(fmt.Errorf("%s: signing.kid: %w", full, err))
		}
	}
	return always, id, err
}

// parseBool accepts the booleans of YAML 1.1, which the reference implementation reads, but no text
// in quotes.
func parseBool(node *yaml.Node) (bool, error) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if node.Kind == yaml.ScalarNode && node.Style&quoted == 0 {
		switch {
		case slices.Contains([]string{"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}, node.Value):
			return true, nil
		case slices.Contains([]string{"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}, node.Value):
			return false, nil
		}
	}
	return false, fmt.Errorf("want true or false, without quotes, not %q", node.Value)
}

// A Mode is how an agent treats messages without a verified signature.
type Mode string

// The modes. The zero value means Off.
const (
	Off Mode = "off"
	// Warn shows the verdict on each message.
	Warn Mode = "warn"
	// Enforce holds unverified messages.
	Enforce Mode = "enforce"
)

// ModeOf returns the setting signing.verify_mode of an agent. If config.yaml cannot be used, or has another mode or the
// mode in another place, ModeOf returns Enforce, the safe choice, and the error.
func ModeOf(w *mailbox.Workspace, agent schema.AgentName) (Mode, error) {
	_, s, err := readSettings(w, agent)
	if err != nil {
		return Enforce, err
	}
	return cmp.Or(s.Mode, Off), nil
}

// Signs reports whether an agent signs everything that it sends.
func Signs(w *mailbox.Workspace, agent schema.AgentName) bool {
	always, _, err := signSettings(w, agent)
	return always && err == nil
}
