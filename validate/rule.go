package validate

import "slices"

// Rule is the stable identifier of a validation rule, in kebab case.
type Rule string

// Severity says whether a diagnostic makes a message invalid.
type Severity string

// The severities. Only an error makes a message invalid.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// The rules. Rules returns them with their descriptions.
const (
	RuleFileUnreadable Rule = "file-unreadable"
	RuleFileSize       Rule = "file-size"
	RuleFileEmpty      Rule = "file-empty"
	RuleFileName       Rule = "file-name"
	RuleDuplicateID    Rule = "duplicate-id"
	RuleManyProblems   Rule = "many-problems"

	RuleEncoding         Rule = "encoding"
	RuleControlCharacter Rule = "control-character"
	RuleSyntax           Rule = "yaml-syntax"
	RuleVersion          Rule = "yaml-version"
	RuleDocuments        Rule = "yaml-documents"
	RuleTopLevel         Rule = "yaml-top-level"
	RuleDuplicateKey     Rule = "yaml-duplicate-key"
	RuleComplexKey       Rule = "yaml-complex-key"
	RuleAnchor           Rule = "yaml-anchor"
	RuleAlias            Rule = "yaml-alias"
	RuleMergeKey         Rule = "yaml-merge-key"
	RuleTag              Rule = "yaml-tag"
	RuleDepth            Rule = "yaml-depth"

	RuleUnknownField   Rule = "unknown-field"
	RuleMissingField   Rule = "missing-field"
	RuleFieldKind      Rule = "field-kind"
	RuleOuterSpace     Rule = "outer-space"
	RuleLength         Rule = "length"
	RuleID             Rule = "id-form"
	RuleIDSender       Rule = "id-sender"
	RuleIDRand         Rule = "id-rand"
	RuleAgentName      Rule = "agent-name"
	RuleRecipients     Rule = "recipients"
	RuleSelfSend       Rule = "self-send"
	RuleType           Rule = "type"
	RulePriority       Rule = "priority"
	RuleTime           Rule = "time"
	RuleExpiry         Rule = "expiry-order"
	RuleChannel        Rule = "channel-characters"
	RuleAutonomyHint   Rule = "autonomy-hint"
	RuleRelatedPR      Rule = "related-pr"
	RuleConversationID Rule = "conversation-id"
	RuleParentID       Rule = "parent-id-form"
	RuleContextLength  Rule = "context-length"
	RuleTelemetryType  Rule = "telemetry-type"
	RuleTelemetryValue Rule = "telemetry-value"
	RuleAuthForm       Rule = "auth-form"

	RuleBodyKind       Rule = "body-kind"
	RuleBodyKey        Rule = "body-key"
	RuleTypedBody      Rule = "typed-body"
	RuleTypedBodyField Rule = "typed-body-field"
	RuleTypedBodyList  Rule = "typed-body-list"
	RuleHandoffAgents  Rule = "handoff-agents"
	RuleHandoffParties Rule = "handoff-parties"
	RulePullRequest    Rule = "pull-request"
	RuleFollowUpField  Rule = "follow-up-field"

	RulePublished    Rule = "published-message"
	RuleRemoved      Rule = "removed-message"
	RuleWrongMailbox Rule = "wrong-mailbox"
	RuleCopy         Rule = "missing-copy"
	RuleCommitter    Rule = "committer"

	RuleContract       Rule = "contract"
	RuleContractSchema Rule = "contract-schema"
)

// RuleInfo describes a rule.
type RuleInfo struct {
	ID       Rule     `json:"id"`
	Severity Severity `json:"severity"`
	// Description is one sentence that states the rule.
	Description string `json:"description"`
}

var rules = []RuleInfo{
	{RuleFileUnreadable, Error, "The path exists and is a regular file that can be read."},
	{RuleFileSize, Error, "A message file is at most 1 MiB."},
	{RuleFileEmpty, Error, "A message file contains a message."},
	{RuleFileName, Warning, "The name of a message file agrees with its content."},
	{RuleDuplicateID, Error, "A message id names one message: no two files with different bytes, and no two in one folder."},
	{RuleManyProblems, Error, "A file has at most 100 problems; another diagnostic says that there are more."},

	{RuleEncoding, Error, "Text is UTF-8."},
	{RuleControlCharacter, Error, "A file contains neither a raw NUL nor another character that YAML forbids."},
	{RuleSyntax, Error, "A message file is well-formed YAML."},
	{RuleVersion, Error, "A %YAML directive names version 1.x."},
	{RuleDocuments, Error, "A message file is one YAML document."},
	{RuleTopLevel, Error, "The top of a message file is a mapping of fields."},
	{RuleDuplicateKey, Error, "A key occurs once in its mapping."},
	{RuleComplexKey, Error, "A key is text."},
	{RuleAnchor, Error, "YAML anchors are not used."},
	{RuleAlias, Error, "YAML aliases are not used."},
	{RuleMergeKey, Error, "YAML merge keys are not used."},
	{RuleTag, Error, "YAML tags are those of the core schema: str, int, float, bool, null, seq, map."},
	{RuleDepth, Error, "Lists and mappings nest at most 1,000 deep."},

	{RuleUnknownField, Error, "The message schema defines every field."},
	{RuleMissingField, Error, "Every required field is present and not empty."},
	{RuleFieldKind, Error, "A field has the right shape: text, or for to a list of texts."},
	{RuleOuterSpace, Error, "A composed single-line field has no outer white space."},
	{RuleLength, Error, "Text is not longer than its field allows; lengths count characters."},
	{RuleID, Error, "An id has the form msg-<timestamp>-<sender>-<rand>."},
	{RuleIDSender, Warning, "The sender in the id is the one in from."},
	{RuleIDRand, Warning, "The last part of an id is 3 to 32 letters and digits; other tools may reject others."},
	{RuleAgentName, Error, "An agent name is a letter or digit, then up to 63 letters, digits, dots, underscores and hyphens."},
	{RuleRecipients, Error, "A message has 1 to 10 distinct recipients; a handoff and its completion have one."},
	{RuleSelfSend, Error, "The sender is not among the recipients."},
	{RuleType, Error, "The type is one of the twelve message types."},
	{RulePriority, Error, "The priority is P0, P1, P2 or P3."},
	{RuleTime, Error, "A time has the form YYYY-MM-DDTHH:MM:SSZ and is a real one."},
	{RuleExpiry, Warning, "A message expires after it was created."},
	{RuleChannel, Warning, "A channel consists of letters, digits, underscores and hyphens; other tools reject the rest."},
	{RuleAutonomyHint, Error, "The only autonomy hint is auto_proceed."},
	{RuleRelatedPR, Error, "related_pr is a number in digits."},
	{RuleConversationID, Error, "A conversation id has the form conv-<YYYYMMDD>-<agent>-<seq>."},
	{RuleParentID, Warning, "A parent message id has the form of a message id."},
	{RuleContextLength, Warning, "context_keys has at most 500 words."},
	{RuleTelemetryType, Error, "Only review_feedback, review_addressed and review_lgtm carry telemetry."},
	{RuleTelemetryValue, Error, "A telemetry count is a whole number in digits, a time or cost a non-negative number."},
	{RuleAuthForm, Error, "A signature trailer is the last line of the file: auth: \"<base64url>\" and one line feed."},

	{RuleBodyKind, Error, "The body is text or a non-empty mapping."},
	{RuleBodyKey, Error, "A key of a structured body has at most 128 characters."},
	{RuleTypedBody, Error, "The body of a handoff or handoff_complete is a YAML mapping."},
	{RuleTypedBodyField, Error, "A typed body has every field that its type requires, not empty and of the right shape."},
	{RuleTypedBodyList, Warning, "A field documented as a list is written as one."},
	{RuleHandoffAgents, Error, "A handoff goes from one agent to a different one."},
	{RuleHandoffParties, Warning, "The agents that a handoff names are the sender and the recipient."},
	{RulePullRequest, Error, "The pr of a handoff_complete is a number, with or without a #."},
	{RuleFollowUpField, Warning, "A follow_up body says what it follows."},

	{RulePublished, Error, "A change does not edit a message that its base has: moving it within a mailbox is no edit."},
	{RuleRemoved, Warning, "A change leaves a message in its sender's outbox."},
	{RuleWrongMailbox, Error, "A message that a change adds is in the outbox of its sender, or in the inbox or archive of a recipient."},
	{RuleCopy, Error, "A copy that a change adds for a recipient has the bytes of the one in its sender's outbox."},
	{RuleCommitter, Error, "workspace.json lists the committer of a message for its sender."},

	{RuleContract, Error, "A body fits the workspace's schemas for its type and its channel."},
	{RuleContractSchema, Error, "A schema of the workspace is a JSON Schema that refers only to files beside it."},
}

// Rules returns every rule in the order of the documentation.
func Rules() []RuleInfo { return slices.Clone(rules) }

// severity returns the severity of the rule.
func (r Rule) severity() Severity {
	return rules[slices.IndexFunc(rules, func(info RuleInfo) bool { return info.ID == r })].Severity
}
