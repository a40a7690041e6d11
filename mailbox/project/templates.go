package project

// The templates of the files that Init and AddAgent write. The tools of the reference implementation look for
// these names and fields.

// cardTemplate has the values of a card: name, runtime, model, description, inbox, outbox.
const cardTemplate = `# Who this agent is, for those who send to it. status.yaml says what it does now.
version: "0.2.0"

name: %s
runtime: %s
model: %s
description: %s

# What to ask it for: each skill has an id, a name, a description and tags.
skills: []

protocol:
  inbox_path: %s
  outbox_path: %s
  supported_message_types:
`

// statusTemplate has the values of a status file: runtime, model, time.
const statusTemplate = `runtime: %s
model: %s
status: available
current_task: ""
capabilities: []
updated_at: %s
`

// attributesTemplate keeps git from changing files of agents that are committed with the code: from converting line
// endings, fixing white space (apply.whitespace=fix), and merging the contents of two. Messages and settings may be signed.
const attributesTemplate = `# Git leaves the files of agents as they are, and never merges the contents of two.
* -text -merge -whitespace
`
