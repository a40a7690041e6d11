package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/visible"
)

// ErrUnknownSession reports that the agent does not have the session to continue. Start and Turn
// return it; a driver without a session starts a new one.
var ErrUnknownSession = errors.New("the agent does not know the session")

const alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// checkSession checks that a session id is well formed, because it becomes an argument of a program and
// may come from an Ash host.
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
	// Failing: the connection failed, the service failed or has too much to do, or something else
	// answered, such as a proxy with a page.
	Failing APIErrorKind = "failing"
	// Misconfigured: the program or the service rejects a setting, such as an unknown model or option,
	// or a variable is missing.
	Misconfigured APIErrorKind = "misconfigured"
	// Refused: the service rejects the request as malformed or too large. The message may be to blame.
	Refused APIErrorKind = "refused"
	// Declined: the model, or a policy of its service, refuses to answer the message. Another try would end in the same way.
	Declined APIErrorKind = "declined"
	// TooLong: the session has no room for the request, or its limit of output or of turns is reached. A new session may have.
	TooLong APIErrorKind = "too_long"
)

// APIError is a failure of the service behind an agent. All kinds but Refused, Declined and TooLong match ErrUnavailable:
// no message is to blame, and a later turn may succeed.
type APIError struct {
	Kind APIErrorKind
	// Status is the HTTP status, 0 if unknown.
	Status int
	// Text is what the agent said.
	Text string
	// Advice says what to do about it, if there is a remedy.
	Advice string
	// Until is when a limit ends, if the program says that. Before, no turn succeeds.
	Until time.Time
}

func (e *APIError) Error() string {
	text := "the model's service failed: " + reason(e.Text)
	if e.Status != 0 {
		text = fmt.Sprintf("the model's service failed with status %d: %s", e.Status, reason(e.Text))
	}
	if e.Kind == Declined {
		text = "the model refused: " + reason(e.Text)
	}
	if !e.Until.IsZero() {
		text += "; the limit ends at " + e.Until.UTC().Format("2006-01-02 15:04 UTC")
	}
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

func (e *APIError) Explain() (code, hint string) {
	if !e.Is(ErrUnavailable) {
		return "", ""
	}
	return "agent_unavailable", ""
}

// brief returns what happened on one line.
func (e *APIError) brief() string {
	line, _, _ := strings.Cut(strings.TrimSpace(e.Text), "\n")
	line = cmp.Or(visible.CutBytes(strings.TrimSpace(line), maxArgument), string(e.Kind))
	if e.Status != 0 && !strings.Contains(line, fmt.Sprint(e.Status)) {
		line += fmt.Sprintf(", status %d", e.Status)
	}
	return line
}

// Is reports whether the failure is one of availability.
func (e *APIError) Is(target error) bool {
	return target == ErrUnavailable && e.Kind != Refused && e.Kind != Declined && e.Kind != TooLong
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
	case 404: // not found: requests of all messages have the same address
		return Misconfigured
	case 400, 413, 422: // bad, too large, unprocessable
		return Refused
	}
	return Failing
}

// A failureTable lists what programs and services say of failures, by their kinds.
type failureTable []struct {
	kind APIErrorKind
	said []string
}

// find returns the first kind that has a text for which match returns true, "" if there is none.
func (t failureTable) find(match func(string) bool) APIErrorKind {
	for _, known := range t {
		if slices.ContainsFunc(known.said, match) {
			return known.kind
		}
	}
	return ""
}

// failureWords are the programs' words for failures.
var failureWords = failureTable{
	{NotLoggedIn, []string{"unauthorized", "authentication_failed", "oauth_org_not_allowed", "account_on_hold", "verification_required",
		"cloud_credential_error", "api_key_auth_disabled", "org_disabled_credential", "invalid_credential_header", "provider_credentials",
		"gateway_signin_required", "gateway_session_expired", "stored_login_refused", "consent_unanswered"}},
	{RateLimited, []string{"usageLimitExceeded", "rateLimitExceeded", "rate_limit", "billing_error",
		"usage_limit_reached", "model_requires_usage_credits", "long_context_credits_required"}},
	{Misconfigured, []string{"modelNotFound", "model_not_found", "claude_code_version_too_old", "effort_requires_thinking", "advisor_incompatible"}},
	{TooLong, []string{"contextWindowExceeded", "sessionBudgetExceeded", "max_tokens", "max_turn_requests", "error_max_turns",
		"error_max_budget_usd", "message_over_context_limit"}},
	{Declined, []string{"refusal", "cyberPolicy", "misalignmentPolicyViolation", "safety_monitor_blocked", "dlp_request_denied"}},
	{Refused, []string{"tooManyDenials", "inferenceHookDenied", "badRequest"}},
}

// vagueWords are words for failures that say less than an HTTP status.
var vagueWords = failureTable{
	{Failing, []string{"httpConnectionFailed", "responseStreamConnectionFailed", "responseStreamDisconnected", "internalServerError",
		"responseTooManyFailedAttempts", "serverOverloaded", "flexUnavailable", "policyCapacityUnavailable"}},
	{TooLong, []string{"max_output_tokens"}},
	{Refused, []string{"invalid_request"}},
}

// kindOf returns the kind of a failure with a program's words for it and an HTTP status, "" if both
// leave it open.
func kindOf(status int, words ...string) APIErrorKind {
	among := func(said string) bool { return slices.Contains(words, said) }
	if kind := failureWords.find(among); kind != "" {
		return kind
	}
	if status != 0 {
		return kindOfStatus(status)
	}
	return vagueWords.find(among)
}

// failureTexts are parts of error texts, in lower case, that tell the kind of a failure without a word of
// its own. Most are failures that every message would meet, although services often give them the status of
// a bad request. Those of kind Declined are about the message, but look like others.
var failureTexts = failureTable{
	{TooLong, []string{"context window", "prompt is too long", "context_length"}},
	{Declined, []string{"content_filter", "content filtering policy"}},
	{Failing, []string{"stream disconnected", "connection failed", "high demand", "at capacity", "capacity is unavailable"}},
	{RateLimited, []string{"usage limit", "quota exceeded", "current quota", "out of credits", "insufficient credits",
		"credit balance", "your billing", "billing hard limit", "spend cap"}},
	{NotLoggedIn, []string{"organization has been disabled", "must be verified", "not available in your"}},
	{Misconfigured, []string{"invalid model", "not supported when using codex", "missing environment variable", "unsupported value", "unsupported parameter",
		"not supported on this model", "anthropic-beta", "input_schema"}},
}

// kindOfText returns the kind of a failure by its text, "" if the text leaves it open.
func kindOfText(said string) APIErrorKind {
	said = strings.ToLower(said)
	return failureTexts.find(func(text string) bool { return strings.Contains(said, text) })
}

// reason returns the text of a failure, or a text for a failure that has none.
func reason(said string) string {
	return cmp.Or(strings.TrimSpace(said), "no reason is given")
}

// newAPIError describes a failure. If the kind is Refused, the text may show a more exact one. Login is
// the advice on how to log in.
func newAPIError(kind APIErrorKind, status int, text, login string) *APIError {
	if kind == Refused {
		kind = cmp.Or(kindOfText(text), Refused)
	}
	e := &APIError{Kind: kind, Status: status, Text: visible.CutBytes(text, maxTail)}
	switch kind {
	case NotLoggedIn:
		e.Advice = login
	case RateLimited:
		e.Advice = "wait until the limit is reset, add credit, or use another account or model"
	case Failing:
		e.Advice = "check the network, or try again later"
	case Misconfigured:
		e.Advice = "check the model, the address of the service, the settings of the program and the environment of oacp"
	}
	return e
}

// until adds to an error of a turn when the limit ends that it is about. A time that has passed says nothing, and one more
// than a month away nothing that is worth waiting for.
func until(err error, at time.Time) error {
	if failure, ok := errors.AsType[*APIError](err); ok && failure.Kind == RateLimited {
		if left := time.Until(at); left > 0 && left < 32*24*time.Hour {
			failure.Until = at
		}
	}
	return err
}

// DiedError reports that the agent's program ended in the middle of a turn.
type DiedError struct {
	// Program is the agent's name.
	Program string
	// LastLine is the last line that it printed besides messages, on its error output if there is any.
	LastLine string
	// Err says how it ended.
	Err error

	// accepted reports that it had taken the prompt. Added is what Steer added to it.
	accepted bool
	added    string
}

func (e *DiedError) Error() string {
	text := e.Program + " ended in the middle of the turn: " + e.Err.Error()
	if e.LastLine != "" {
		text += ": " + e.LastLine
	}
	return text
}

func (e *DiedError) Unwrap() error { return e.Err }

// maxQuote bounds a line of an agent's output that an error quotes, in bytes.
const maxQuote = 400

// lastLine returns the last line of a text that is not blank. A carriage return also begins a line,
// because programs show progress with it.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return visible.ShortBytes(strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:]), maxQuote)
}
