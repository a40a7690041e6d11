package project

// The files that Init and AddAgent write, most of them only into a project below a home. Their names, and the fields
// and headings in them, are those that the reference implementation's tools look for.

const factsTemplate = `# Project Facts

What every agent should know before it starts. Replace the lines in brackets.

## Agents
- [name]: implements [what]
- [name]: reviews
- [name]: releases

## Working agreements
- [how to build and test]
- [what needs a person's approval]
`

const decisionsTemplate = `# Decision Log

What was decided and why, the newest day first.

## %s
- The workspace was made.
`

const threadsTemplate = `# Open Threads

Questions and work that nobody has finished, one line each, with the message or pull request.

- None yet.
`

const debtTemplate = `# Known Debt

Flaws that are known and accepted for now, so that nobody has to find them again.

| Item | Severity | Date Found | Source | Status |
| --- | --- | --- | --- | --- |
| None yet. |  |  |  |  |
`

// configTemplate lets oacp run work, while tools that ask the section autonomy wait for a person:
// they do not know a mode that does not.
const configTemplate = `# What this agent may do before a person has looked at a message.
autonomy:
  # For tools that ask before they accept a message: always_pause or auto_review.
  default_mode: always_pause
  # For auto_review: the largest task to accept, and what a task must not involve.
  auto_review_thresholds:
    max_estimated_minutes: 45
    max_expected_files_touched: 5
    destructive_ops: pause
    external_side_effects: allow_pr_artifacts
    auth_config_or_secrets: pause
    dependency_changes: pause
    public_visibility: pause
    git_push_or_deploy: pause
  allow_without_task_profile:
    - brainstorm_request
  # Repositories, as owner/name, that are known to be private.
  private_repo_allowlist: []
  continuation_grants:
    enabled: false

# For oacp run: auto starts a turn for each message. Without this section, oacp run holds messages
# as default_mode says, until a person starts it with --autonomy auto.
run:
  autonomy: auto
`

// cardTemplate has the values of a card in JSON, which is YAML: name, runtime, model, description,
// inbox, outbox.
const cardTemplate = `# Who this agent is, for those who send to it. status.yaml says what it does now. Routing, trust and
# quota are in the agent's profile, agents/<name>/profile.yaml of the home.
version: "0.2.0"

name: %s
runtime: %s
model: %s
description: %s

# What to ask it for: each skill has an id, a name, a description and tags.
skills: []

capabilities:
  tools: []
  languages: []
  domains: []

permissions:
  allowed_dirs: []
  denied_dirs: []
  allowed_commands: []
  denied_commands: []
  github_operations: []
  max_cost_usd_per_run: null

availability:
  schedule: "always"
  max_concurrent_tasks: 1
  timezone: "UTC"

protocol:
  inbox_path: %s
  outbox_path: %s
  supported_message_types:
`

// attributesTemplate keeps git from changing messages that are committed with the code: the ends of
// their lines, their white space (apply.whitespace=fix), and their contents in a merge, which would
// make a message that nobody wrote.
const attributesTemplate = `# Git leaves messages as they are, and never merges the contents of two.
agents/*/inbox/** -text -merge -whitespace
agents/*/outbox/** -text -merge -whitespace
agents/*/dead_letter/** -text -merge -whitespace
`
