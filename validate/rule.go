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

// The rules; see rules for their descriptions.
const (
	RuleFileUnreadable Rule = "file-unreadable"
	RuleFileSize       Rule = "file-size"
	RuleFileEmpty      Rule = "file-empty"
	ruleFileName       Rule = "file-name"
	ruleDuplicateID    Rule = "duplicate-id"
	ruleManyProblems   Rule = "many-problems"

	ruleEncoding         Rule = "encoding"
	ruleControlCharacter Rule = "control-character"
	ruleSyntax           Rule = "yaml-syntax"
	ruleVersion          Rule = "yaml-version"
	RuleDocuments        Rule = "yaml-documents"
	ruleTopLevel         Rule = "yaml-top-level"
	RuleDuplicateKey     Rule = "yaml-duplicate-key"
	ruleComplexKey       Rule = "yaml-complex-key"
	ruleAnchor           Rule = "yaml-anchor"
	ruleAlias            Rule = "yaml-alias"
	ruleMergeKey         Rule = "yaml-merge-key"
	ruleTag              Rule = "yaml-tag"
	ruleDepth            Rule = "yaml-depth"

	ruleUnknownField   Rule = "unknown-field"
	ruleMissingField   Rule = "missing-field"
	ruleFieldKind      Rule = "field-kind"
	ruleOuterSpace     Rule = "outer-space"
	ruleLength         Rule = "length"
	ruleID             Rule = "id-form"
	ruleIDSender       Rule = "id-sender"
	ruleIDRand         Rule = "id-rand"
	ruleAgentName      Rule = "agent-name"
	ruleRecipients     Rule = "recipients"
	ruleSelfSend       Rule = "self-send"
	ruleType           Rule = "type"
	rulePriority       Rule = "priority"
	ruleTime           Rule = "time"
	ruleExpiry         Rule = "expiry-order"
	ruleChannel        Rule = "channel-characters"
	ruleAutonomyHint   Rule = "autonomy-hint"
	ruleRelatedPR      Rule = "related-pr"
	ruleConversationID Rule = "conversation-id"
	ruleParentID       Rule = "parent-id-form"
	ruleContextLength  Rule = "context-length"
	ruleTelemetryType  Rule = "telemetry-type"
	ruleTelemetryValue Rule = "telemetry-value"
	ruleAuthForm       Rule = "auth-form"

	ruleBodyKind       Rule = "body-kind"
	ruleBodyKey        Rule = "body-key"
	ruleTypedBody      Rule = "typed-body"
	RuleTypedBodyField Rule = "typed-body-field"
	ruleTypedBodyList  Rule = "typed-body-list"
	ruleHandoffAgents  Rule = "handoff-agents"
	ruleHandoffParties Rule = "handoff-parties"
	rulePullRequest    Rule = "pull-request"
	ruleFollowUpField  Rule = "follow-up-field"

	RulePublished    Rule = "published-message"
	RuleRemoved      Rule = "removed-message"
	RuleWrongMailbox Rule = "wrong-mailbox"
	RuleCopy         Rule = "missing-copy"

	ruleContract       Rule = "contract"
	RuleContractSchema Rule = "contract-schema"
)

// ruleInfo describes a rule in one sentence.
type ruleInfo struct {
	ID          Rule
	Severity    Severity
	Description string
}

// rules has every rule in the order of the documentation.
var rules = []ruleInfo{
	{RuleFileUnreadable, Error, "The path exists and is a regular file that can be read."},
	{RuleFileSize, Error, "A message file is at most 1 MiB."},
	{RuleFileEmpty, Error, "A message file contains a message."},
	{ruleFileName, Warning, "The name of a message file agrees with its content."},
	{ruleDuplicateID, Error, "A message id names one message: no two files with different bytes, and no two in one folder."},
	{ruleManyProblems, Error, "A file has at most 100 problems; another diagnostic says that there are more."},

	{ruleEncoding, Error, "Text is UTF-8."},
	{ruleControlCharacter, Error, "A file contains neither a raw NUL nor another character that YAML forbids."},
	{ruleSyntax, Error, "A message file is well-formed YAML."},
	{ruleVersion, Error, "A %YAML directive names version 1.x."},
	{RuleDocuments, Error, "A message file is one YAML document."},
	{ruleTopLevel, Error, "The top of a message file is a mapping of fields."},
	{RuleDuplicateKey, Error, "A key occurs once in its mapping."},
	{ruleComplexKey, Error, "A key is text."},
	{ruleAnchor, Error, "YAML anchors are not used."},
	{ruleAlias, Error, "YAML aliases are not used."},
	{ruleMergeKey, Error, "YAML merge keys are not used."},
	{ruleTag, Error, "YAML tags are those of the core schema: str, int, float, bool, null, seq, map."},
	{ruleDepth, Error, "Lists and mappings nest at most 1,000 deep."},

	{ruleUnknownField, Error, "The message schema defines every field."},
	{ruleMissingField, Error, "Every required field is present and not empty."},
	{ruleFieldKind, Error, "A field has the right shape: text, or for to a list of texts."},
	{ruleOuterSpace, Error, "A composed single-line field has no outer white space."},
	{ruleLength, Error, "Text is not longer than its field allows; lengths count characters."},
	{ruleID, Error, "An id has the form msg-<timestamp>-<sender>-<rand>."},
	{ruleIDSender, Warning, "The sender in the id is the one in from."},
	{ruleIDRand, Warning, "The last part of an id is 3 to 32 letters and digits; other tools may reject others."},
	{ruleAgentName, Error, "An agent name is a letter or digit, then up to 63 letters, digits, dots, underscores and hyphens."},
	{ruleRecipients, Error, "A message has 1 to 10 distinct recipients; a handoff and its completion have one."},
	{ruleSelfSend, Error, "The sender is not among the recipients."},
	{ruleType, Error, "The type is one of the twelve message types."},
	{rulePriority, Error, "The priority is P0, P1, P2 or P3."},
	{ruleTime, Error, "A time has the form YYYY-MM-DDTHH:MM:SSZ and is a real one."},
	{ruleExpiry, Warning, "A message expires after it was created."},
	{ruleChannel, Warning, "A channel consists of letters, digits, underscores and hyphens; other tools reject the rest."},
	{ruleAutonomyHint, Error, "The only autonomy hint is auto_proceed."},
	{ruleRelatedPR, Error, "related_pr is a number in digits."},
	{ruleConversationID, Error, "A conversation id has the form conv-<YYYYMMDD>-<agent>-<seq>."},
	{ruleParentID, Warning, "A parent message id has the form of a message id."},
	{ruleContextLength, Warning, "context_keys has at most 500 words."},
	{ruleTelemetryType, Error, "Only review_feedback, review_addressed and review_lgtm carry telemetry."},
	{ruleTelemetryValue, Error, "A telemetry count is a whole number in digits, a time or cost a non-negative number."},
	{ruleAuthForm, Error, "A signature trailer is the last line of the file: auth: \"<base64url>\" and one line feed."},

	{ruleBodyKind, Error, "The body is text or a non-empty mapping."},
	{ruleBodyKey, Error, "A key of a structured body has at most 128 characters."},
	{ruleTypedBody, Error, "The body of a handoff or handoff_complete is a YAML mapping."},
	{RuleTypedBodyField, Error, "A typed body has every field that its type requires, not empty and of the right shape."},
	{ruleTypedBodyList, Warning, "A field documented as a list is written as one."},
	{ruleHandoffAgents, Error, "A handoff goes from one agent to a different one."},
	{ruleHandoffParties, Warning, "The agents that a handoff names are the sender and the recipient."},
	{rulePullRequest, Error, "The pr of a handoff_complete is a number, with or without a #."},
	{ruleFollowUpField, Warning, "A follow_up body says what it follows."},

	{RulePublished, Error, "A change does not edit a message that its base has: moving it within a mailbox is no edit."},
	{RuleRemoved, Warning, "A change leaves a message in its sender's outbox."},
	{RuleWrongMailbox, Error, "A message that a change adds is in the outbox of its sender, or in the inbox or archive of a recipient."},
	{RuleCopy, Error, "A copy that a change adds for a recipient has the bytes of the one in its sender's outbox."},

	{ruleContract, Error, "A body fits the workspace's schemas for its type and its channel."},
	{RuleContractSchema, Error, "A schema of the workspace is a JSON Schema that refers only to files beside it."},
}

// severity returns the severity of the rule.
func (r Rule) severity() Severity {
	return rules[slices.IndexFunc(rules, func(info ruleInfo) bool { return info.ID == r })].Severity
}
