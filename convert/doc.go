// Package convert turns OACP messages into records of AgentPair's bridge log and back. It does not
// access files; convert/mirror synchronizes a log with a workspace.
//
// [Mapping] is the table of types. [ToBridge] returns one record for each recipient of a message.
// The records' metadata contains the whole message, so [Carried] returns the same message from any of
// them.
//
// A record that another program wrote becomes a derived message, see [Derive]:
//
//   - The channel names the type or signal, followed by -all if the record is a broadcast. A type or signal that
//     AgentPair's bridge reference does not list gives a notification on the channel bridge-other.
//   - context_keys names the record: bridge-record: {"id": …, "run": …}. This is the message's [Origin].
//   - The id is msg-<time>-<sender>-<rand>. The first three characters of rand are the record's time within the
//     minute, the other 13 are hexadecimal digits of a SHA-256 of run, record id and recipient.
//   - The body is the content. Content that no text body can hold, because it is blank or too long, is in a
//     structured body under the key content.
//   - created_at_utc is the timestamp, to the second. A timestamp that cannot be read becomes the year 1970.
//
// Everything else, such as metadata of other tools, stays in the log.
package convert
