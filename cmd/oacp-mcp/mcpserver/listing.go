package mcpserver

import "slices"

// listing is what the tools that list something take.
type listing struct {
	Limit limit  `json:"limit,omitempty" jsonschema:"Default 20."`
	After string `json:"after,omitempty" jsonschema:"The next of the page before."`
}

func (l *listing) setDefaults() { l.Limit = defaultLimit }

// more is the part of a listing that says whether it goes on.
type more struct {
	Left int    `json:"left,omitempty"`
	Next string `json:"next,omitempty"`
}

// paginate passes the entries of a page to add: those after the one that a client names, as long as add takes them. name
// names an entry for a client.
func paginate[T any](after string, entries []T, name func(T) string, add func(T) (fits bool)) (more, error) {
	if after != "" {
		last := slices.IndexFunc(entries, func(e T) bool { return name(e) == after })
		if last < 0 {
			return more{}, argumentErrorf("the argument after is not the next of an earlier answer, or that entry is gone: "+
				"leave it out to list all again: %q", cut(after, idTokens))
		}
		entries = entries[last+1:]
	}
	for i, e := range entries {
		if !add(e) {
			return more{len(entries) - i, name(entries[i-1])}, nil
		}
	}
	return more{}, nil
}
