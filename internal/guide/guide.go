// Package guide holds the page from which an agent learns to use its mailbox.
package guide

import _ "embed"

// Agent is the page: Markdown of at most 2,500 characters.
//
//go:embed agent.md
var Agent string
