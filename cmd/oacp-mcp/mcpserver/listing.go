package mcpserver

import "slices"

// listing has the arguments of the tools that list something.
type listing struct {
	Limit limit  `json:"limit,omitempty" jsonschema:"Default 20."`
	After string `json:"after,omitempty" jsonschema:"The next of the page before."`
}

func (l *listing) setDefaults() { l.Limit = defaultLimit }

// more says whether entries follow after the page.
type more struct {
	Left int    `json:"left,omitempty"`
	Next string `json:"next,omitempty"`
}

// paginate calls add for each entry after the one named after, until add reports that an entry does not fit.
// The function name returns the name of an entry, which a client gives as after to get the next page.
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
