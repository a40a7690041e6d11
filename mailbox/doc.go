// Package mailbox is the core of a workspace, the folder in which agents exchange messages: it
// sends messages, recovers interrupted deliveries, lists and finds messages, and acknowledges them.
//
// A message that [Workspace.Send] accepts is in every recipient's inbox, complete and exactly once,
// even if a process or the machine dies midway. Delivery is a two-phase commit; its commit record
// is the outbox copy:
//
//	compose   check the message, choose its id and file name, render it once
//	stage     write one copy for each box to state/outgoing
//	sync      fsync the staged copies and their folder
//	commit    rename the outbox copy into the outbox, fsync the outbox: the message is sent
//	publish   rename each inbox copy into its inbox, fsync the inboxes and state/outgoing
//
// No rename replaces a file, and a rename consumes the staged name, so if several processes try to
// publish a copy, exactly one succeeds. [Workspace.Recover], which ends every Send, completes what
// a crash interrupted: it removes the copies of messages that are not sent, and publishes the
// others.
//
// A staged copy is locked from before its first byte until it is published or its process ends.
// Recover never touches locked copies; if it cannot see the locks of a copy, the age of the copy
// decides. The staged outbox copy is created first and removed last, so copies without it belong to
// a sent message. After the commit, a staged copy can disappear because [Recall] takes it, or because
// someone removes state. If it is in no box of the recipient, its sender writes it again, hidden in
// the inbox, and syncs it before the rename. It does not do so on a network file system, where
// another machine may have delivered the copy.
//
// A power failure can undo a rename that was not yet synced. So a message counts as sent only once
// its outbox is synced, for every process: an inbox never shows a message that its sender's outbox
// has lost. A staged copy can also come back. Recover publishes none that the recipient has in its
// inbox, archive or dead letters.
//
// [Workspace.Receive] delivers messages from other machines in the same steps, with their original
// bytes and file names. If an outbox already has a message, its copies were published here, and
// missing ones were acknowledged, so nothing arrives twice.
//
// [Workspace.Acknowledge] moves a handled message to the archive, a folder in the inbox. Only
// [Workspace.Prune] deletes handled messages. Older tools delete a message to acknowledge it, so one that
// is in the outbox of its sender and in no box of the recipient also counts as acknowledged.
//
// A rename cannot cross mounts, so all boxes must be on the mount of state.
package mailbox
