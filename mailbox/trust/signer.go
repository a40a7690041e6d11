package trust

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// A SettingsError reports that the settings for signing in an agent's configuration cannot be used.
// Nothing is sent then: a message that was to be signed must not go out unsigned.
type SettingsError struct {
	Path string
	// Err names the file.
	Err error
}

// Error names the file and says what is wrong with it.
func (e *SettingsError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *SettingsError) Unwrap() error { return e.Err }

// settings are the section signing of an agent's configuration.
type settings struct {
	sign  bool
	keyID signing.KeyID
}

// sign implements mailbox.SignFunc: it signs with the sender's keys if its settings or the caller ask for it.
// Errors are a *SettingsError, a *PolicyError, a *signing.NoKeyError or a *signing.KeyFileError.
func sign(w *mailbox.Workspace, m *schema.Message, file []byte, asked bool) ([]byte, error) {
	if m.From == mailbox.Postmaster {
		return file, nil // not an agent, so it has no keys
	}
	s, err := loadSettings(w, m.From)
	if err != nil || !asked && !s.sign {
		return file, err
	}
	home, err := w.Home()
	if err != nil {
		return nil, err
	}
	keys, err := signing.NewStore(home).Load(m.From, s.keyID)
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

// CheckSettings returns a *SettingsError or a *PolicyError if the settings for signing of an agent cannot be used.
func CheckSettings(w *mailbox.Workspace, agent schema.AgentName) error {
	_, err := loadSettings(w, agent)
	return err
}

// loadSettings reads the settings of an agent. Those of an agent without a file, or whose file says
// nothing about signing, are the zero value.
func loadSettings(w *mailbox.Workspace, agent schema.AgentName) (settings, error) {
	full, data, err := readPolicy(w, agent, signing.ReceiverConfig)
	if e, ok := errors.AsType[*FileError](err); ok {
		return settings{}, &SettingsError{e.Path, e.Err}
	}
	if err != nil || !bytes.Contains(data, []byte("signing")) {
		return settings{}, err // most files, which need not be parsed
	}
	s, err := parseSettings(data)
	if err != nil {
		return settings{}, &SettingsError{full, fmt.Errorf("%s: %w", full, err)}
	}
	return s, nil
}

func parseSettings(data []byte) (s settings, err error) {
	var file struct {
		Signing yaml.Node `yaml:"signing"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return s, err
	}
	if isNull(file.Signing) {
		return s, nil
	}
	var section map[string]yaml.Node
	if err := file.Signing.Decode(&section); err != nil {
		return s, fmt.Errorf("signing: %w", err)
	}
	if value, ok := section["sign_messages"]; ok {
		if s.sign, err = parseBool(value); err != nil {
			return s, fmt.Errorf("signing.sign_messages: %w", err)
		}
	}
	id, err := textOf(section, "kid")
	if err == nil && id != "" {
		s.keyID, err = signing.ParseKeyID(id)
	}
	if err != nil {
		return s, fmt.Errorf("signing.kid: %w", err)
	}
	return s, nil
}

// parseBool accepts the booleans of YAML 1.1, which the reference implementation reads, but no text
// in quotes.
func parseBool(node yaml.Node) (bool, error) {
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
