package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknownSession says that the agent does not have the session to continue. Start and Turn
// return it; a driver without a session starts a new one.
var ErrUnknownSession = errors.New("the agent does not know the session")

const alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// checkSession checks that a session id is well formed: it may have come from afar, and becomes an
// argument of a program.
func checkSession(id string) error {
	if id == "" || len(id) <= 200 && strings.Contains(alphanumeric, id[:1]) && strings.Trim(id, alphanumeric+"-_.:") == "" {
		return nil
	}
	return fmt.Errorf("%w: %.60q is not a session id", ErrUnknownSession, id)
}

// An APIErrorKind classifies failures of a model's service by what can be done about them.
type APIErrorKind string

// The kinds of failures.
const (
	// NotLoggedIn: the service rejects the login.
	NotLoggedIn APIErrorKind = "not_logged_in"
	// RateLimited: too many requests, or the account's allowance is used up.
	RateLimited APIErrorKind = "rate_limited"
	// Overloaded: the service has too much to do.
	Overloaded APIErrorKind = "overloaded"
	// Unreachable: the connection failed or broke off.
	Unreachable APIErrorKind = "unreachable"
	// Failing: the service failed, or something else answered, such as a proxy with a page.
	Failing APIErrorKind = "failing"
	// UnknownModel: the service does not offer the model to this account, or it has another address.
	UnknownModel APIErrorKind = "unknown_model"
	// Misconfigured: the program or the service rejects a setting, such as an option that the model
	// does not have, or a variable is missing.
	Misconfigured APIErrorKind = "misconfigured"
	// Refused: the service rejects the request as too long, malformed or against a policy. The
	// message may be to blame.
	Refused APIErrorKind = "refused"
)

// APIError is a failure of the service behind an agent. All kinds but Refused match ErrUnavailable:
// no message is to blame, and a later turn may succeed.
type APIError struct {
	Kind APIErrorKind
	// Status is the HTTP status, 0 if unknown.
	Status int
	// Text is what the agent said.
	Text string
	// Advice says what to do about it, if there is a remedy.
	Advice string
}

// Error returns what the agent said, and the advice.
func (e *APIError) Error() string {
	text := "the model's service failed: " + reason(e.Text)
	if e.Status != 0 {
		text = fmt.Sprintf("the model's service failed with status %d: %s", e.Status, reason(e.Text))
	}
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

// brief returns what happened on one line.
func (e *APIError) brief() string {
	line, _, _ := strings.Cut(strings.TrimSpace(e.Text), "\n")
	line = cmp.Or(cutText(strings.TrimSpace(line), maxArgument), string(e.Kind))
	if e.Status != 0 && !strings.Contains(line, fmt.Sprint(e.Status)) {
		line += fmt.Sprintf(", status %d", e.Status)
	}
	return line
}

// Is reports whether the failure is one of availability.
func (e *APIError) Is(target error) bool {
	return target == ErrUnavailable && e.Kind != Refused
}

// kindOfStatus returns the kind of failure that an HTTP status means. A status that does not blame
// the request, such as zero, is a failure of the service. The statuses are numbers because net/http
// would make every command start more slowly.
func kindOfStatus(status int) APIErrorKind {
	switch status {
	case 401, 403: // unauthorized, forbidden
		return NotLoggedIn
	case 402, 429: // payment required, too many requests
		return RateLimited
	case 503, 529: // unavailable; overloaded, in the Messages API
		return Overloaded
	case 404: // not found: requests of all messages have the same address
		return UnknownModel
	case 400, 413, 422: // bad, too large, unprocessable
		return Refused
	}
	return Failing
}

// failureTexts are what programs and services say, in lower case, of failures that every message would
// meet, and for which they have no word: services give many of them the status of a bad request. Those of
// kind Refused are about the message, but look like others.
var failureTexts = []struct {
	kind  APIErrorKind
	texts []string
}{
	{Refused, []string{"content_filter", "context window"}},
	{Unreachable, []string{"stream disconnected", "connection failed"}},
	{Failing, []string{"high demand"}}, // the words of codex for status 500
	{Overloaded, []string{"at capacity", "capacity is unavailable"}},
	{RateLimited, []string{"usage limit", "quota exceeded", "current quota", "out of credits", "insufficient credits",
		"credit balance", "your billing", "billing hard limit", "spend cap"}},
	{NotLoggedIn, []string{"organization has been disabled", "must be verified", "not available in your"}},
	{UnknownModel, []string{"invalid model", "not supported when using codex"}},
	{Misconfigured, []string{"missing environment variable", "unsupported value", "unsupported parameter",
		"not supported on this model", "anthropic-beta", "input_schema"}},
}

// kindOfText returns the kind of a failure that only its text tells, "" if it does not.
func kindOfText(said string) APIErrorKind {
	said = strings.ToLower(said)
	for _, known := range failureTexts {
		if slices.ContainsFunc(known.texts, func(text string) bool { return strings.Contains(said, text) }) {
			return known.kind
		}
	}
	return ""
}

// reason returns what was said of a failure, or that nothing was.
func reason(said string) string {
	return cmp.Or(strings.TrimSpace(said), "no reason is given")
}

// newAPIError describes a failure. If the kind is Refused, the text may tell a better one. The login
// advice is the agent's own.
func newAPIError(kind APIErrorKind, status int, text, login string) *APIError {
	if kind == Refused {
		kind = cmp.Or(kindOfText(text), Refused)
	}
	e := &APIError{Kind: kind, Status: status, Text: cutText(text, maxTail)}
	switch kind {
	case NotLoggedIn:
		e.Advice = login
	case RateLimited:
		e.Advice = "wait until the limit is reset, add credit, or use another account or model"
	case Overloaded, Failing:
		e.Advice = "try again later"
	case Unreachable:
		e.Advice = "check the network"
	case UnknownModel:
		e.Advice = "check the name of the model and the address of the service"
	case Misconfigured:
		e.Advice = "check the settings of the program and the environment of oacp"
	}
	return e
}

// DiedError says that the agent's program ended in the middle of a turn.
type DiedError struct {
	// Program is the agent's name.
	Program string
	// LastLine is the last that it printed besides messages, on its error output if there is any.
	LastLine string
	// Err says how it ended.
	Err error

	// accepted reports that it had taken the prompt.
	accepted bool
}

// Error says how the program ended.
func (e *DiedError) Error() string {
	text := e.Program + " ended in the middle of the turn: " + e.Err.Error()
	if e.LastLine != "" {
		text += ": " + e.LastLine
	}
	return text
}

// Unwrap returns how the program ended.
func (e *DiedError) Unwrap() error { return e.Err }

// maxQuote bounds a line of an agent's output that an error quotes, in bytes.
const maxQuote = 400

// lastLine returns the last line of a text that is not blank. A line also begins where a program
// returns to the beginning of one, to show its progress.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	line := strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:])
	if len(line) > maxQuote {
		line = cutText(line, maxQuote) + "…"
	}
	return line
}
