// Package guide holds the pages of "oacp help" that explain no single command.
package guide

import _ "embed"

// A Page is what "oacp help NAME" prints.
type Page struct{ Name, Usage, Text string }

// Pages are the pages in the order of the help text.
func Pages() []Page {
	return []Page{
		{"agent", "what an agent needs, on one page", Agent},
		{"types", "message types and answers", Types},
		{"workspace", "how commands find it", workspace},
		{"exit-status", "what exit statuses mean", exitStatus},
	}
}

// Agent is the page from which an agent learns to use its mailbox: Markdown of at most 2,700 characters.
//
//go:embed agent.md
var Agent string

// Types has a row for each type of message.
//
//go:embed types.txt
var Types string

//go:embed workspace.txt
var workspace string

//go:embed exit-status.txt
var exitStatus string
