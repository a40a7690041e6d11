package mcpserver

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

// A position is where an entry of a listing is in its order. It does not need the entry, which may be
// gone when a client asks for what comes after it.
type position struct {
	class int // what comes first: the class of a message, or the list it is in
	age   schema.Message
	name  string // tells entries apart that are equal otherwise; empty: behind all of them
}

// classOfFiles is the class of files that are not valid messages. They come last.
const classOfFiles = 99

// classOfTheirs is the class of requests whose answers others owe, behind those that the agent owes: 0.
const classOfTheirs = 1

// inboxPosition returns the position of an entry of the inbox.
func inboxPosition(e mailbox.Entry) position {
	if e.Err != nil {
		return position{class: classOfFiles, name: e.Name}
	}
	return position{e.Message.Class(), schema.Message{CreatedAt: e.Message.CreatedAt, ID: e.Message.ID}, e.Name}
}

// owedPosition returns the position of a request of one of the classes.
func owedPosition(class int, r track.OpenRequest) position {
	return position{class, schema.Message{CreatedAt: r.CreatedAt, ID: r.ID}, string(r.To)}
}

// compare orders positions.
func (p position) compare(other position) int {
	if c := cmp.Or(cmp.Compare(p.class, other.class), schema.CompareAge(&p.age, &other.age)); c != 0 || p.name == other.name {
		return c
	}
	switch {
	case p.name == "":
		return 1
	case other.name == "":
		return -1
	}
	return strings.Compare(p.name, other.name)
}

// text writes the position for a client. The name is left out unless the entry behind needs it.
func (p position) text(behind position) string {
	fields := []string{strconv.Itoa(p.class), string(p.age.CreatedAt), string(p.age.ID), p.name}
	if p.name = ""; p.compare(behind) < 0 {
		fields = fields[:3]
	}
	for i, field := range fields {
		fields[i] = url.QueryEscape(field)
		if i == 1 {
			fields[i] = strings.ReplaceAll(fields[i], "%3A", ":")
		}
	}
	return strings.Join(fields, "/")
}

// parsePosition reads what text wrote. No text is the position before everything.
func parsePosition(text string) (position, error) {
	if text == "" {
		return position{class: -1}, nil
	}
	fields := strings.Split(text, "/")
	p := position{}
	var err error
	if p.class, err = strconv.Atoi(fields[0]); err == nil && (len(fields) == 3 || len(fields) == 4) {
		for i, field := range fields {
			if fields[i], err = url.QueryUnescape(field); err != nil {
				break
			}
		}
	}
	if err != nil || len(fields) < 3 || len(fields) > 4 {
		return position{}, argumentErrorf("the argument after is not the next of an earlier answer: %q", cut(text, idTokens))
	}
	p.age = schema.Message{CreatedAt: schema.Timestamp(fields[1]), ID: schema.ID(fields[2])}
	if len(fields) == 4 {
		p.name = fields[3]
	}
	return p, nil
}
