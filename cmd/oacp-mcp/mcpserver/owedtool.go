package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/spelling"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

type owedList struct {
	Mine       []openRequest `json:"mine" jsonschema:"Requests that wait for your answer, oldest first."`
	Theirs     []openRequest `json:"theirs" jsonschema:"Your requests that wait for an answer, oldest first."`
	Total      int           `json:"total" jsonschema:"How many requests there are, listed or not."`
	Unreadable string        `json:"unreadable,omitempty" jsonschema:"What could not be read. Requests in it are missing."`
	more
}

type openRequest struct {
	MessageID schema.ID        `json:"message_id" jsonschema:"Id of the request."`
	From      schema.AgentName `json:"from" jsonschema:"Who asks."`
	To        schema.AgentName `json:"to" jsonschema:"Who owes the answer."`
	Type      schema.Type      `json:"type" jsonschema:"What the request is for."`
	Subject   string           `json:"subject" jsonschema:"What it is about."`
	Age       string           `json:"age" jsonschema:"How old it is, such as 5m, 3h or 2d."`
	ExpiresAt schema.Timestamp `json:"expires_at,omitempty" jsonschema:"When it expires."`
	Stage     track.Stage      `json:"stage" jsonschema:"How far it got, as oacp status says."`
}

func (s *Server) listOwed(ctx context.Context, in listing) (owedList, string, error) {
	result := owedList{Mine: []openRequest{}, Theirs: []openRequest{}}
	after, err := parsePosition(in.After)
	if err != nil {
		return result, "", err
	}
	owed, err := track.OwedBy(ctx, s.workspace, s.agent)
	switch incomplete := new(mailbox.UnreadableError); {
	case errors.As(err, &incomplete):
		result.Unreadable = cut(failure.OneLine(incomplete.Error()), reasonTokens)
	case err != nil:
		return result, "", err
	}
	var all []placedRequest
	for class, list := range [][]track.OpenRequest{owed.Mine, owed.Theirs} {
		for _, r := range list {
			all = append(all, placedRequest{owedPosition(class, r), r})
		}
	}
	slices.SortFunc(all, func(a, b placedRequest) int { return a.compare(b.position) })
	start := slices.IndexFunc(all, func(r placedRequest) bool { return r.compare(after) > 0 })
	if start < 0 {
		start = len(all)
	}
	return result, result.page(all, start, in.Limit), nil
}

// placedRequest is a request with its position in the listing.
type placedRequest struct {
	position
	track.OpenRequest
}

// page fills in what fits of the requests from a place on, and returns the text.
func (r *owedList) page(all []placedRequest, start int, most limit) string {
	var text strings.Builder
	if r.Total = len(all); r.Total == 0 {
		text.WriteString("Nothing is owed.\n")
	}
	fits, now, end := newPage(most), time.Now(), start
	for _, open := range all[start:] {
		one := newOpenRequest(open.OpenRequest, now)
		line, list, title := one.line(), &r.Mine, "Wait for your answer:\n"
		if open.class == classOfTheirs {
			list, title = &r.Theirs, "You wait for an answer:\n"
		}
		if !fits.takes(line, one) {
			break
		}
		if len(*list) == 0 {
			text.WriteString(title)
		}
		text.WriteString(line)
		*list = append(*list, one)
		end++
	}
	if end < len(all) {
		r.more = more{len(all) - end, all[end-1].text(all[end].position)}
		text.WriteString(r.line("list_owed", ""))
	}
	if r.Unreadable != "" {
		fmt.Fprintf(&text, "There may be more: %s\n", r.Unreadable)
	}
	return text.String()
}

func newOpenRequest(r track.OpenRequest, now time.Time) openRequest {
	return openRequest{
		cut(r.ID, idTokens), cut(r.From, nameTokens), cut(r.To, nameTokens), cut(r.Type, nameTokens), cut(r.Subject, subjectTokens),
		spelling.Age(r.CreatedAt.Time(), now), cut(r.ExpiresAt, nameTokens), r.Stage,
	}
}

// line says the same in one line.
func (r openRequest) line() string {
	return fmt.Sprintf("%s from %s to %s, %s old, %s: %s (id %s)\n", oneLine(string(r.Type)), oneLine(string(r.From)), oneLine(string(r.To)),
		r.Age, r.Stage, oneLine(r.Subject), oneLine(string(r.MessageID)))
}
