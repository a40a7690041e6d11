// Package convert turns OACP messages into records of AgentPair's bridge log and back, and keeps a log and a
// workspace in step.
//
// # Messages and records
//
// [Mapping] is the table of types. [ToBridge] makes one record for each recipient of a message and puts the
// whole message into the records' metadata, so that [FromBridge] gives the very message back from any of
// them. A record that was born in the bridge becomes a message with the channel bridge-<type>; going forward
// again gives that record.
//
// A born message says all that its record says, in this way:
//
//   - The channel names the type or signal, with -all behind it where the record is a broadcast. What
//     AgentPair's bridge reference does not list, such as an unknown type, is a notification on the channel
//     bridge-other.
//   - The id ends in the first 16 hexadecimal digits of the record's id. Where that does
//     not begin with so many, or another record has the same, there are an x and 24 digits of a SHA-256 of
//     the record instead.
//   - The body is the content. Content that no text body holds, because it is blank or longer than a body may
//     be, stands in a structured body under the key content.
//   - created_at_utc is the timestamp, to the second. A timestamp that is no time becomes the year 1970.
//   - What is left, an id of another form, an undocumented type or signal, the id of a message in the metadata
//     that another message has here, or the run where another one has the same record of the same second, stands
//     in context_keys, behind "bridge-record: ".
//
// What a born message does not carry (fractions of the second, otherwise the run, other metadata) stays in the
// log, where the message's id leads back to the record itself.
//
// # The mirror
//
// [Mirror] carries what is new from the outboxes into the log and from the log into the mailboxes, each thing
// once, however often it runs, whatever kills it, and however many processes do the same. A record is in the
// log or is not, a message is in its sender's outbox or is not, and that decides. The files it keeps in
// state/mirror only spare it looking at what it has dealt with; they may be lost at any time, as long as the
// outboxes are as they were recorded.
//
// Into the log of a run go the messages made since it began, and no message that was born in another log: see
// [Mirror]. A file that somebody may still be writing is left alone until it has been quiet for a while.
//
// A record that cannot be delivered becomes a dead letter, with a reason: of its sender, where the workspace
// knows it, otherwise in state/mirror/dead_letter. A recipient that the workspace does not know is a reason;
// an unknown sender is not: who writes into the log exists, and gets a mailbox. Once the recipient is known
// too, removing state/mirror/*-in.json has the whole log looked at again, and only what was not delivered is.
//
// The outboxes are the memory of what was sent. Removing or changing an outbox copy while its records are in
// the log is safe as long as the files in state/mirror are there.
package convert
