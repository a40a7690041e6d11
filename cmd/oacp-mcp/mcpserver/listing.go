package mcpserver

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// listing is what the tools that list something take.
type listing struct {
	Limit limit  `json:"limit,omitempty" jsonschema:"Default 20."`
	After string `json:"after,omitempty" jsonschema:"The next of the page before."`
}

// more is the part of a listing that says whether it goes on.
type more struct {
	Left int    `json:"left,omitempty" jsonschema:"How many there are after these."`
	Next string `json:"next,omitempty" jsonschema:"What to give as after for those."`
}

// A position is where an entry of a listing is in its order. It does not need the entry, which may be
// gone when a client asks for what comes after it.
type position struct {
	class int // what comes first: the class of a message, or the list it is in
	age   schema.Message
	name  string // tells entries apart that are equal otherwise
}

// classOfFiles is the class of files that are not valid messages. They come last.
const classOfFiles = 99

func inboxPosition(e mailbox.Entry) position {
	if e.Err != nil {
		return position{class: classOfFiles, name: e.Name}
	}
	return position{e.Message.Class(), schema.Message{CreatedAt: e.Message.CreatedAt, ID: e.Message.ID}, e.Name}
}

// owedPosition puts the requests that an agent owes an answer before its own.
func owedPosition(agent schema.AgentName, r track.OpenRequest) position {
	p := position{age: schema.Message{CreatedAt: r.CreatedAt, ID: r.ID}, name: string(r.To)}
	if r.To != agent {
		p.class = 1
	}
	return p
}

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.class, other.class), schema.CompareAge(&p.age, &other.age), cmp.Compare(p.name, other.name))
}

// String writes the position for a client.
func (p position) String() string {
	return fmt.Sprintf("%d/%s/%s/%s", p.class, p.age.CreatedAt, p.age.ID, url.PathEscape(p.name))
}

// parsePosition reads what String wrote. No text is the position before everything.
func parsePosition(text string) (position, error) {
	if text == "" {
		return position{class: -1}, nil
	}
	if fields := strings.Split(text, "/"); len(fields) == 4 {
		class, err := strconv.Atoi(fields[0])
		name, escapeErr := url.PathUnescape(fields[3])
		if err == nil && escapeErr == nil {
			age := schema.Message{CreatedAt: schema.Timestamp(fields[1]), ID: schema.ID(fields[2])}
			return position{class, age, name}, nil
		}
	}
	return position{}, argumentErrorf("the argument after is not the next of an earlier answer: %q", cut(text, idTokens))
}

// behind returns the entries behind the position that a client names.
func behind[T any](after string, entries []T, at func(T) position) ([]T, error) {
	place, err := parsePosition(after)
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		if at(e).compare(place) > 0 {
			return entries[i:], nil
		}
	}
	return nil, nil
}
