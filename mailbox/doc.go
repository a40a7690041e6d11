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
//	publish   rename each inbox copy into its inbox, fsync the inboxes
//
// No rename replaces a file, and a rename consumes the staged name: of all processes that try to
// publish a copy exactly one succeeds. [Workspace.Recover], which ends every Send, completes what a
// crash interrupted: it removes the copies of messages that are not sent, and publishes the others.
//
// Staged copies are locked from before their first byte until their process ends. Recover leaves
// locked copies alone, and judges by age those whose locks it cannot see. The staged outbox copy is
// created first and removed last, so copies without it belong to a sent message. If someone removes
// state during a send, a copy can be gone after the commit: its sender then stages it again, hidden
// in the box, and syncs it and its name before the rename, as for any staged copy.
//
// A power failure can undo a rename that was not yet synced. The commit is synced before the first
// inbox copy appears, so an inbox never shows a message that its sender's outbox has lost.
//
// [Workspace.Receive] delivers messages of other machines in the same steps, with the bytes and the
// file name that they have there. If an outbox has a message already, its copies were published here,
// and those that are missing were acknowledged: nothing arrives twice.
//
// A box can be a mount point of its own, such as an inbox bind-mounted into a container. No rename
// crosses mounts, so its copy is staged hidden in the box, and a file in state/outgoing, its mark,
// leads Recover to it; the mark is durable first. Archive, dead letters and Restore do so, too.
package mailbox
