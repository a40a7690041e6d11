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

// ruleInfo describes a rule in one sentence.
type ruleInfo struct {
	ID          Rule
	Severity    Severity
	Description string
}

// rules has every rule in the order of the documentation.
var rules []ruleInfo

func newRule(id Rule, severity Severity, description string) Rule {
	rules = append(rules, ruleInfo{id, severity, description})
	return id
}

// The rules, in the order of the documentation.
var (
	RuleFileUnreadable = newRule("file-unreadable", Error, "The path exists and is a regular file that can be read.")
	RuleFileSize       = newRule("file-size", Error, "A message file is at most 1 MiB.")
	ruleFileEmpty      = newRule("file-empty", Error, "A message file contains a message.")
	ruleFileName       = newRule("file-name", Warning, "The name of a message file agrees with its content.")
	ruleDuplicateID    = newRule("duplicate-id", Error, "A message id names one message: no two files with different bytes, and no two in one folder.")
	ruleManyProblems   = newRule("many-problems", Error, "A file has at most 100 problems; another diagnostic says that there are more.")

	ruleEncoding         = newRule("encoding", Error, "Text is UTF-8.")
	ruleControlCharacter = newRule("control-character", Error, "A file contains neither a raw NUL nor another character that YAML forbids.")
	ruleSyntax           = newRule("yaml-syntax", Error, "A message file is well-formed YAML.")
	ruleVersion          = newRule("yaml-version", Error, "A %YAML directive names version 1.x.")
	RuleDocuments        = newRule("yaml-documents", Error, "A message file is one YAML document.")
	ruleTopLevel         = newRule("yaml-top-level", Error, "The top of a message file is a mapping of fields.")
	RuleDuplicateKey     = newRule("yaml-duplicate-key", Error, "A key occurs once in its mapping.")
	ruleComplexKey       = newRule("yaml-complex-key", Error, "A key is text.")
	ruleAnchor           = newRule("yaml-anchor", Error, "YAML anchors are not used.")
	ruleAlias            = newRule("yaml-alias", Error, "YAML aliases are not used.")
	ruleMergeKey         = newRule("yaml-merge-key", Error, "YAML merge keys are not used.")
	ruleTag              = newRule("yaml-tag", Error, "YAML tags are those of the core schema: str, int, float, bool, null, seq, map.")
	ruleDepth            = newRule("yaml-depth", Error, "Lists and mappings nest at most 1,000 deep.")

	ruleUnknownField   = newRule("unknown-field", Error, "The message schema defines every field.")
	ruleMissingField   = newRule("missing-field", Error, "Every required field is present and not empty.")
	ruleLostText       = newRule("lost-text", Warning, "A field without a value has no comment such as #42, which YAML does not read as text.")
	ruleFieldKind      = newRule("field-kind", Error, "A field has the right shape: text, or for to a list of texts.")
	ruleOuterSpace     = newRule("outer-space", Error, "A composed single-line field has no outer white space.")
	ruleLength         = newRule("length", Error, "Text is not longer than its field allows; lengths count characters.")
	ruleID             = newRule("id-form", Error, "An id has the form msg-<timestamp>-<sender>-<rand>.")
	ruleIDSender       = newRule("id-sender", Warning, "The sender in the id is the one in from.")
	ruleIDRand         = newRule("id-rand", Warning, "The last part of an id is 3 to 32 letters and digits; other tools may reject others.")
	ruleAgentName      = newRule("agent-name", Error, "An agent name is a letter or digit, then up to 63 letters, digits, dots, underscores and hyphens.")
	ruleRecipients     = newRule("recipients", Error, "A message has 1 to 10 distinct recipients; a handoff and its completion have one.")
	ruleSelfSend       = newRule("self-send", Error, "The sender is not among the recipients.")
	ruleType           = newRule("type", Error, "The type is one of the twelve message types.")
	rulePriority       = newRule("priority", Error, "The priority is P0, P1, P2 or P3.")
	ruleTime           = newRule("time", Error, "A time has the form YYYY-MM-DDTHH:MM:SSZ and is a real one.")
	ruleExpiry         = newRule("expiry-order", Warning, "A message expires after it was created.")
	ruleChannel        = newRule("channel-characters", Warning, "A channel consists of letters, digits, underscores and hyphens; other tools reject the rest.")
	ruleAutonomyHint   = newRule("autonomy-hint", Error, "The only autonomy hint is auto_proceed.")
	ruleRelatedPR      = newRule("related-pr", Error, "related_pr is a number in digits.")
	ruleConversationID = newRule("conversation-id", Error, "A conversation id has the form conv-<YYYYMMDD>-<agent>-<seq>.")
	ruleParentID       = newRule("parent-id-form", Warning, "A parent message id has the form of a message id.")
	ruleContextLength  = newRule("context-length", Warning, "context_keys has at most 500 words.")
	ruleInvisibleText  = newRule("invisible-text", Warning, "A subject and a body have no characters that a model reads and a person does not see.")
	ruleTelemetryType  = newRule("telemetry-type", Error, "Only review_feedback, review_addressed and review_lgtm carry telemetry.")
	ruleTelemetryValue = newRule("telemetry-value", Error, "A telemetry count is a whole number in digits, a time or cost a non-negative number.")
	ruleAuthForm       = newRule("auth-form", Error, "A signature trailer is the last line of the file: auth: \"<base64url>\" and one line feed.")

	ruleBodyKind       = newRule("body-kind", Error, "The body is text or a non-empty mapping.")
	ruleBodyKey        = newRule("body-key", Error, "A key of a structured body has at most 128 characters.")
	ruleTypedBody      = newRule("typed-body", Error, "The body of a handoff or handoff_complete is a YAML mapping.")
	ruleTypedBodyField = newRule("typed-body-field", Error, "A typed body has every field that its type requires, not empty and of the right shape.")
	ruleTypedBodyList  = newRule("typed-body-list", Warning, "A field documented as a list is written as one.")
	ruleHandoffAgents  = newRule("handoff-agents", Error, "A handoff goes from one agent to a different one.")
	ruleHandoffParties = newRule("handoff-parties", Warning, "The agents that a handoff names are the sender and the recipient.")
	rulePullRequest    = newRule("pull-request", Error, "The pr of a handoff_complete is a number, with or without a #.")
	ruleFollowUpField  = newRule("follow-up-field", Warning, "A follow_up body says what it follows.")

	RulePublished    = newRule("published-message", Error, "A change does not edit a message that its base has; moving it within a mailbox is not an edit.")
	RuleRemoved      = newRule("removed-message", Warning, "A change leaves a message in its sender's outbox.")
	RuleWrongMailbox = newRule("wrong-mailbox", Error, "A message that a change adds is in the outbox of its sender, or in the inbox or archive of a recipient.")
	RuleCopy         = newRule("missing-copy", Error, "A copy that a change adds for a recipient has the bytes of the one in its sender's outbox.")

	ruleContract       = newRule("contract", Error, "A body fits the workspace's schemas for its type and its channel.")
	RuleContractSchema = newRule("contract-schema", Error, "A schema of the workspace is a JSON Schema that refers only to files beside it.")
)

// severity returns Error for a rule that this package does not know: one of a caller.
func (r Rule) severity() Severity {
	if i := slices.IndexFunc(rules, func(info ruleInfo) bool { return info.ID == r }); i >= 0 {
		return rules[i].Severity
	}
	return Error
}
