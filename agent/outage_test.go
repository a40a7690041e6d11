package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/internal/testing/modelstub"
)

// refusal is a failure in the form of the model's API.
func refusal(status int, kind string) modelstub.Reply {
	return says(status, kind, "as the script says")
}

// says is a failure with the words of the model's API.
func says(status int, kind, message string) modelstub.Reply {
	return modelstub.Reply{Failure: &modelstub.Failure{Status: status, Type: kind, Message: message}}
}

// stranger is an answer of a server that is not a model API.
func stranger(status int, contentType, body string) modelstub.Reply {
	return modelstub.Reply{Failure: &modelstub.Failure{Status: status, ContentType: contentType, Body: body}}
}

var thorough = flag.Bool("thorough", false, "have the service behind the real programs fail in every way, not only in the usual ones")

// TestAPIErrors makes the service behind the real programs fail and checks the kind of error that the driver returns. An
// outage must not be blamed on the message.
func TestAPIErrors(t *testing.T) {
	t.Parallel()
	bad := func(message string) modelstub.Reply { return says(400, "invalid_request_error", message) }
	tests := []struct {
		name          string
		reply         modelstub.Reply
		claude, codex APIErrorKind
	}{
		{"400", refusal(400, "invalid_request_error"), Refused, ""},
		{"400, no credit", bad("Your credit balance is too low to access the API."), RateLimited, RateLimited},
		{"400, limit", bad("You have reached your specified API usage limits."), RateLimited, RateLimited},
		{"400, billing", bad("Billing hard limit has been reached"), RateLimited, RateLimited},
		{"400, disabled", bad("This organization has been disabled."), NotLoggedIn, NotLoggedIn},
		{"400, unverified", bad("Your organization must be verified to use this model."), NotLoggedIn, NotLoggedIn},
		{"400, region", bad("This service is not available in your region"), NotLoggedIn, NotLoggedIn},
		{"400, model", stranger(400, "application/json", `{"detail":"The 'x' model is not supported when using Codex with a ChatGPT account."}`), Misconfigured, Misconfigured},
		{"400, invalid model", bad("invalid model name: x"), Misconfigured, Misconfigured},
		{"400, option", bad("Unsupported value: 'xhigh' is not supported with the 'x' model."), Misconfigured, Misconfigured},
		{"400, thinking", bad("thinking.type: adaptive thinking is not supported on this model"), Misconfigured, Misconfigured},
		{"400, tool", bad("tools.14.custom.input_schema: JSON schema is invalid"), Misconfigured, Misconfigured},
		{"400, long", bad("prompt is too long: 209245 tokens > 200000 maximum"), TooLong, TooLong},
		{"400, policy", bad("Output blocked by content filtering policy"), Declined, Declined},
		{"429, no quota", says(429, "insufficient_quota", "You exceeded your current quota."), RateLimited, RateLimited},
		{"401", refusal(401, "authentication_error"), NotLoggedIn, NotLoggedIn},
		{"402", refusal(402, "billing_error"), RateLimited, RateLimited},
		{"403", refusal(403, "permission_error"), NotLoggedIn, NotLoggedIn},
		{"404, no such model", refusal(404, "not_found_error"), Misconfigured, Misconfigured},
		{"404, a page", stranger(404, "text/html", "<html>nothing here</html>"), Misconfigured, Misconfigured},
		{"407", stranger(407, "text/html", "<html>who are you?</html>"), Failing, Failing},
		{"408", refusal(408, "timeout_error"), Failing, Failing},
		{"413", refusal(413, "request_too_large"), Refused, Refused},
		{"422", refusal(422, "invalid_request_error"), Refused, Refused},
		{"429", refusal(429, "rate_limit_error"), RateLimited, RateLimited},
		{"500", refusal(500, "api_error"), Failing, Failing},
		{"502, a page", stranger(502, "text/html", "<html>bad gateway</html>"), Failing, Failing},
		{"503", refusal(503, "api_error"), Failing, Failing},
		{"504", refusal(504, "timeout_error"), Failing, Failing},
		{"529", refusal(529, "overloaded_error"), Failing, Failing},
		{"200, a page", stranger(200, "text/html", "<html>accept our terms</html>"), Failing, Failing},
		{"200, no events", stranger(200, "text/event-stream", ""), Failing, Failing},
		{"200, broken events", stranger(200, "text/event-stream", "event: message_start\ndata: {not json\n\n"), Failing, Failing},
		{"hangs up", modelstub.Reply{Text: "abcdef", Cut: true}, Failing, Failing},
	}
	usual := []string{"400", "400, no credit", "400, disabled", "400, model", "400, thinking", "400, policy", "401", "413", "429", "500", "200, a page", "hangs up"}
	var next modelstub.Reply
	script := func(context.Context, modelstub.Request) modelstub.Reply { return next }
	claude, _ := realClaude(t, script, nil)
	codex, _ := realCodex(t, script, nil)
	for name, driver := range map[string]Driver{"claude": claude, "codex": codex} {
		started(t, driver)
		for _, test := range tests {
			if !*thorough && !slices.Contains(usual, test.name) {
				continue
			}
			t.Run(name+"/"+test.name, func(t *testing.T) {
				next = test.reply
				_, err := driver.Turn(impatient(t), Request{Prompt: "hello"}, nil)
				want := test.codex
				if name == "claude" {
					want = test.claude
				}
				t.Log(verdict(err))
				blamed := want == Refused || want == Declined || want == TooLong || want == ""
				if got := apiKind(err); got != want || err == nil || errors.Is(err, ErrUnavailable) == blamed {
					t.Errorf("error %v is of kind %q, matches ErrUnavailable: %v; want kind %q", err, got, errors.Is(err, ErrUnavailable), want)
				}
			})
		}
		next = modelstub.Reply{Text: "well again"}
		if result := turn(t, driver, "hello"); result.Text != "well again" {
			t.Errorf("%s answers %q after the failures, want the model's answer", name, result.Text)
		}
	}
}

// TestLimits has the service behind the real programs say when a limit ends.
func TestLimits(t *testing.T) {
	t.Parallel()
	ends := time.Now().Add(3 * time.Hour).Truncate(time.Second)
	at := fmt.Sprint(ends.Unix())
	script := func(body string, header map[string]string) modelstub.Script {
		return func(context.Context, modelstub.Request) modelstub.Reply {
			return modelstub.Reply{Failure: &modelstub.Failure{Status: 429, ContentType: "application/json", Body: body, Header: header}}
		}
	}
	claude, _ := realClaude(t, script(`{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`, map[string]string{
		"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": at, "anthropic-ratelimit-unified-representative-claim": "five_hour",
	}), func(o *Options) {
		o.Env = append(o.Env, "ANTHROPIC_API_KEY=", "CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-x") // only accounts have such limits
	})
	codex, _ := realCodex(t, script(`{"error":{"type":"usage_limit_reached","plan_type":"plus","resets_at":`+at+`}}`, map[string]string{
		"x-codex-primary-used-percent": "100", "x-codex-primary-window-minutes": "300", "x-codex-primary-reset-at": at,
	}), nil)
	for name, driver := range map[string]Driver{"claude": claude, "codex": codex} {
		started(t, driver)
		_, err := driver.Turn(impatient(t), Request{Prompt: "hello"}, nil)
		limit, _ := errors.AsType[*APIError](err)
		if limit == nil || limit.Kind != RateLimited || !limit.Until.Equal(ends) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v, want a limit until %v", name, err, ends)
		}
	}
}

// TestDeclined has the model behind the real claude refuse. The interface of codex's models has no such end.
func TestDeclined(t *testing.T) {
	t.Parallel()
	driver, _ := realClaude(t, func(context.Context, modelstub.Request) modelstub.Reply {
		return modelstub.Reply{Text: "I cannot", Stop: "refusal"}
	}, nil)
	started(t, driver)
	if _, err := driver.Turn(impatient(t), Request{Prompt: "hello"}, nil); apiKind(err) != Declined || errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want a refusal of the model", err)
	}
}

// apiKind returns the kind of failure, "" if the service did not fail.
func apiKind(err error) APIErrorKind {
	var failure *APIError
	if errors.As(err, &failure) {
		return failure.Kind
	}
	return ""
}

// verdict is a line of the matrix that go test -v prints.
func verdict(err error) string {
	blame := "the message may be to blame"
	if errors.Is(err, ErrUnavailable) {
		blame = "no message is to blame"
	}
	return fmt.Sprintf("%-13s %s: %.150v", apiKind(err), blame, err)
}

// TestMissingVariable checks that codex without the variable of its key blames no message.
func TestMissingVariable(t *testing.T) {
	t.Parallel()
	driver, _ := realCodex(t, modelstub.Answers(t), func(o *Options) {
		o.Args = []string{"-c", `model_providers.stub.env_key="NO_SUCH_KEY"`}
	})
	started(t, driver)
	_, err := driver.Turn(impatient(t), Request{Prompt: "hello"}, nil)
	if apiKind(err) != Misconfigured || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "NO_SUCH_KEY") {
		t.Errorf("error %v of kind %q, want %q and the variable", err, apiKind(err), Misconfigured)
	}
}

// TestWaitsForService stops codex while it waits for a service that does not listen, which it would do
// forever.
func TestWaitsForService(t *testing.T) {
	t.Parallel()
	driver, _ := realCodex(t, modelstub.Answers(t), func(o *Options) {
		o.Args = []string{"-c", `model_providers.stub.base_url="http://127.0.0.1:1/v1"`}
	})
	started(t, driver)
	enough := errors.New("enough")
	ctx, stop := context.WithCancelCause(impatient(t))
	_, err := driver.Turn(ctx, Request{Prompt: "hello"}, func(e Event) {
		if len(e.Acts) > 0 && e.Acts[0].Kind == Retry {
			stop(enough)
		}
	})
	if !errors.Is(err, enough) || !errors.Is(err, ErrUnavailable) || apiKind(err) != Failing {
		t.Errorf("error %v of kind %q, want the end of the context and %q", err, apiKind(err), Failing)
	}
}
