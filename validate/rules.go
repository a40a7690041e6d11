package validate

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/signing"
)

// channelChars are the characters of the channels that other tools accept.
const channelChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// check applies the rules for every message.
func (c *checker) check(m *schema.Message) {
	c.m = m
	c.checkRequired()
	c.checkNames()
	c.checkIdentity()
	c.checkTime(m.CreatedAt, "created_at_utc")
	c.checkTime(m.ExpiresAt, "expires_at")
	c.checkLengths()
	c.checkReferences()
	c.checkTelemetry()
	c.checkAuth()
	c.checkBody()
	if !c.lenient {
		c.warn()
	}
}

// missing reports a required field that is absent or empty.
func (c *checker) missing(field string, empty bool) {
	if empty && !c.unread[field] {
		c.report(ruleMissingField, path{field}, missingFix(field), "the required field is missing or empty")
	}
}

func missingFix(field string) string {
	switch field {
	case "priority":
		return "write priority: P2, the default"
	case "id":
		return "write an id such as msg-20260313T1430Z-claude-a8f3"
	case "created_at_utc":
		return "write a time such as 2026-03-13T14:30:00Z"
	}
	return ""
}

func (c *checker) checkRequired() {
	m := c.m
	c.missing("id", m.ID == "" && !c.draft)
	c.missing("from", m.From == "")
	c.missing("to", len(m.To) == 0)
	c.missing("type", m.Type == "")
	c.missing("priority", m.Priority == "" && !c.lenient && !c.draft)
	c.missing("created_at_utc", m.CreatedAt == "" && !c.draft)
	c.missing("subject", m.Subject == "")
	if c.unread["body"] {
		return
	}
	switch body := m.Body; {
	case body.Kind <= schema.Null, body.Kind == schema.Text:
		c.missing("body", isEmptyValue(body))
	case body.Kind != schema.Mapping:
		c.report(ruleBodyKind, path{"body"}, "", "a body is a text or a mapping")
	case len(body.Pairs) == 0:
		c.report(ruleBodyKind, path{"body"}, "", "the mapping is empty")
	}
}

func isBlank(text string) bool { return strings.TrimSpace(text) == "" }

func (c *checker) checkNames() {
	m := c.m
	if m.From != "" && !m.From.Valid() {
		c.reportName(m.From, path{"from"})
	}
	if c.unread["to"] {
		return
	}
	for i, name := range m.To {
		if !name.Valid() {
			c.reportName(name, recipientPath(m, i))
			continue
		}
		if name == m.From {
			c.report(ruleSelfSend, recipientPath(m, i), "leave the sender out", "%s is the sender", quote(name))
		}
		if slices.Contains(m.To[:min(i, schema.MaxRecipients)], name) {
			c.report(ruleRecipients, path{"to", i}, "name each recipient once", "%s is in the list twice", quote(name))
		}
	}
	if len(m.To) > schema.MaxRecipients {
		c.report(ruleRecipients, path{"to"}, "send several messages",
			"there are %d recipients; a message has at most %d", len(m.To), schema.MaxRecipients)
	}
	if len(m.To) > 1 && m.Type.SingleRecipient() {
		c.report(ruleRecipients, path{"to"}, "", "a %s has one recipient, not %d", m.Type, len(m.To))
	}
}

// recipientPath returns the path of a recipient. A single one need not be in a list.
func recipientPath(m *schema.Message, i int) path {
	if len(m.To) == 1 {
		return path{"to"}
	}
	return path{"to", i}
}

// reportName adds a finding about a name that is not an agent name.
func (c *checker) reportName(name schema.AgentName, at path) {
	_, err := schema.ParseAgentName(string(name))
	fix := ""
	if strings.ContainsAny(string(name), ", ") && at[0] == "to" {
		fix = "write several recipients as a list: [a, b]"
	}
	c.report(ruleAgentName, at, fix, "%v", err)
}

func (c *checker) checkIdentity() {
	m := c.m
	if m.ID != "" {
		parts, err := schema.ParseID(m.ID)
		if err != nil {
			c.report(ruleID, path{"id"}, "", "%v", err)
		}
		c.id = parts
	}
	if m.Type != "" && !m.Type.Known() {
		c.report(ruleType, path{"type"}, suggestType(string(m.Type)), "%s is not a message type", quote(m.Type))
	}
	if m.Priority != "" && !m.Priority.Known() {
		c.report(rulePriority, path{"priority"}, SuggestPriority(string(m.Priority)),
			"%s is not a priority", quote(m.Priority))
	}
}

func (c *checker) checkTime(at schema.Timestamp, field string) {
	if at == "" {
		return
	}
	if _, err := schema.ParseTimestamp(at); err != nil {
		c.report(ruleTime, path{field}, suggestTime(string(at)), "%v", err)
	}
}

func (c *checker) checkLengths() {
	m := c.m
	c.checkLength(m.Subject, schema.MaxSubject, "subject")
	c.checkLength(m.Channel, schema.MaxChannel, "channel")
	c.checkLength(string(m.ParentID), schema.MaxParentID, "parent_message_id")
	if m.Body.Kind == schema.Text {
		c.checkLength(m.Body.Text, schema.MaxBody, "body")
	}
}

func (c *checker) checkLength(text string, most int, field string) {
	if len(text) <= most {
		return
	}
	fix := ""
	if field == "body" {
		fix = "put long content in a file and name it in the body"
	}
	if n := utf8.RuneCountInString(strings.TrimSpace(text)); n > most {
		c.report(ruleLength, path{field}, fix, "the text has %d characters; the most is %d", n, most)
	}
}

func (c *checker) checkReferences() {
	m := c.m
	if m.AutonomyHint != "" && m.AutonomyHint != "auto_proceed" {
		c.report(ruleAutonomyHint, path{"autonomy_hint"}, "write auto_proceed, or leave the field out",
			"%s is not an autonomy hint", quote(m.AutonomyHint))
	}
	if m.RelatedPR != "" && !isDigits(m.RelatedPR) {
		fix := ""
		if digits := strings.TrimPrefix(m.RelatedPR, "#"); isDigits(digits) {
			fix = fmt.Sprintf("write %q", digits)
		}
		c.report(ruleRelatedPR, path{"related_pr"}, fix, "%s is not a number in digits", quote(m.RelatedPR))
	}
	if m.ConversationID != "" {
		if _, err := schema.ParseConversationID(m.ConversationID); err != nil {
			c.report(ruleConversationID, path{"conversation_id"}, "", "%v", err)
		}
	}
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

func (c *checker) checkTelemetry() {
	m := c.m
	if m.Telemetry == (schema.Telemetry{}) {
		return
	}
	for _, field := range schema.TelemetryFields() {
		text, _ := m.TextField(field)
		if *text == "" {
			continue
		}
		if m.Type.Known() && !m.Type.CarriesTelemetry() {
			c.report(ruleTelemetryType, path{field}, "leave it out: only review_feedback, review_addressed and review_lgtm carry it",
				"a %s carries no telemetry", m.Type)
		}
		switch field {
		case "model":
		case "wall_time_s", "est_cost_usd":
			if !isNumber(*text) {
				c.report(ruleTelemetryValue, path{field}, "", "%s is not a finite number from 0", quote(*text))
			}
		default:
			if !isDigits(*text) {
				c.report(ruleTelemetryValue, path{field}, "", "%s is not a whole number in digits", quote(*text))
			}
		}
	}
}

// isNumber reports whether the text is a non-negative decimal number that a float64 can hold, with
// an optional fraction and exponent, such as 12, .5 and 1e3.
func isNumber(text string) bool {
	if strings.Trim(text, "0123456789.eE+-") != "" || text[0] == '+' || text[0] == '-' {
		return false
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// checkAuth checks the form of the signature. Only the receiver can verify it.
func (c *checker) checkAuth() {
	if auth := c.m.Auth; auth != "" {
		if _, err := signing.Parse(auth); err != nil {
			c.report(ruleAuthForm, path{"auth"}, "use the signed file exactly as its sender wrote it", "%v", err)
		}
	}
}

// checkSignedFile checks that a signed message is the one in its file.
func (c *checker) checkSignedFile() {
	if c.m.Auth == "" || c.m.File == "" {
		return
	}
	written, err := Read([]byte(c.m.File))
	if err == nil {
		var a, b []byte
		a, err = written.MarshalJSON()
		if b, _ = c.m.MarshalJSON(); err == nil && !bytes.Equal(a, b) {
			err = errors.New("the file says something else")
		}
	}
	if err != nil {
		c.report(ruleAuthForm, path{"auth"}, "send the message as its file has it", "the signed file is not this message: %v", err)
	}
}

// checkTrailer checks that the signature is the last line of the file, because it signs the bytes
// before it.
func (c *checker) checkTrailer(doc *document) {
	auth := c.m.Auth
	if auth == "" || strings.HasSuffix(doc.text, "\nauth: \""+auth+"\"\n") {
		return
	}
	c.report(ruleAuthForm, path{"auth"}, "use the signed file exactly as its sender wrote it",
		`the signature must be the last line of the file: auth: "<base64url>" and one line feed`)
}

// checkFileName compares the message with the name of its file, if that is the name of a message
// file.
func (c *checker) checkFileName(file string) {
	m := c.m
	name, err := schema.ParseFileName(filepath.Base(file))
	if err != nil {
		return
	}
	if m.From.Valid() && m.From != name.From {
		c.report(ruleFileName, path{"from"}, "",
			"the file name says %s, the message says %s", quote(name.From), quote(m.From))
	}
	if m.Type.Known() && m.Type != name.Type {
		c.report(ruleFileName, path{"type"}, "", "the file name says %s, the message says %s", name.Type, m.Type)
	}
	created := m.CreatedAt.Time()
	if !created.IsZero() && !created.Truncate(time.Minute).Equal(name.At.Truncate(time.Minute)) {
		c.report(ruleFileName, path{"created_at_utc"}, "",
			"the file name says %s, the message says %s", schema.NewTimestamp(name.At), m.CreatedAt)
	}
}

// warn reports what is probably a mistake, or what other tools may not accept.
func (c *checker) warn() {
	m := c.m
	if c.id.Sender != "" && c.id.Sender != m.From && m.From.Valid() {
		c.report(ruleIDSender, path{"id"}, "",
			"the id names %s as its sender, from says %s", quote(c.id.Sender), quote(m.From))
	}
	if c.id.Sender != "" && !c.id.UsualRand() {
		c.report(ruleIDRand, path{"id"}, "",
			"the id ends in %s; other tools expect 3 to 32 letters and digits", quote(c.id.Rand))
	}
	if expires := m.ExpiresAt.Time(); !expires.IsZero() && expires.Before(m.CreatedAt.Time()) {
		c.report(ruleExpiry, path{"expires_at"}, "", "the message expires before it was created")
	}
	if strings.Trim(m.Channel, channelChars) != "" {
		c.report(ruleChannel, path{"channel"}, "",
			"other tools refuse %s; they accept letters, digits, underscores and hyphens", quote(m.Channel))
	}
	if id := string(m.ParentID); id != "" && utf8.RuneCountInString(id) <= schema.MaxParentID {
		if _, err := schema.ParseID(m.ParentID); err != nil {
			c.report(ruleParentID, path{"parent_message_id"}, "", "%v", err)
		}
	}
	if len(m.ContextKeys) > 2*schema.MaxContextWords {
		if words := len(strings.Fields(m.ContextKeys)); words > schema.MaxContextWords {
			c.report(ruleContextLength, path{"context_keys"}, "",
				"the summary has %d words; it should have at most %d", words, schema.MaxContextWords)
		}
	}
	c.warnInvisible("subject", m.Subject)
	c.warnInvisible("body", textsOf(m.Body))
}

// warnInvisible warns about characters that a model reads and a person does not see.
func (c *checker) warnInvisible(field, text string) {
	if hidden := visible.FirstInvisible(text); hidden != "" {
		c.report(ruleInvisibleText, path{field}, "leave it out", "the text has a character that nobody sees: readers get it as %s", hidden)
	}
}

// textsOf returns the texts and names in a value.
func textsOf(v schema.Value) string {
	text := v.Text
	for _, item := range v.Items {
		text += "\n" + textsOf(item)
	}
	for _, p := range v.Pairs {
		text += "\n" + p.Key + "\n" + textsOf(p.Value)
	}
	return text
}

// checkComposed applies the rules that a message read from a file cannot break. They ensure that
// the written message reads back the same.
func (c *checker) checkComposed() {
	for _, field := range schema.FieldNames() {
		text, verbatim := c.m.TextField(field)
		switch {
		case text == nil:
		case !utf8.ValidString(*text):
			c.report(ruleEncoding, path{field}, "", "the text is not UTF-8")
		case !verbatim && strings.TrimSpace(*text) != *text:
			c.report(ruleOuterSpace, path{field}, "cut it off", "the text begins or ends with white space")
		}
	}
	if err := c.m.Marks.Check(); err != nil {
		c.report(ruleFieldKind, path{"context_keys"}, "", "the marks cannot be written: %v", err)
	}
}
