// Package mailbox is the core of a workspace, the folder in which agents exchange messages: it
// sends messages, recovers interrupted deliveries, lists and finds messages, and acknowledges them.
//
// A message that [Workspace.Send] accepts is in every recipient's inbox, complete and exactly once,
// even if a process or the machine dies midway. Delivery is a two-phase commit; its commit record
// is the outbox copy:
//
//	compose   check the message, choose its id and file name, render it once
//	stage     write one copy for each box to state/outgoing
//	sync      fsync the staged copies, then their folder
//	commit    rename the outbox copy into the outbox, fsync the outbox: the message is sent
//	publish   rename each inbox copy into its inbox, fsync the inboxes
//
// No rename replaces a file, and a rename consumes the staged name, so of all the processes that
// try to publish a copy exactly one succeeds. [Workspace.Recover], which every Send runs at its
// end, completes what a crash interrupted: it removes the copies of messages that are not sent, and
// publishes the others.
//
// The staged copies are locked as long as their process lives, from before their first byte. Recover
// leaves locked copies alone, and judges those by age whose locks it could not see. The staged outbox
// copy is created first and removed last: copies without it are of a sent message, and not of an
// aborted or half swept one. Nobody else publishes the copies of a living process, so it stages a
// copy again that is gone after the commit: someone removed state. The new copy is hidden in the box
// and is synced, with its name, before it is renamed, as any staged copy is.
//
// A power failure can undo a rename that was not yet synced. The commit is synced before the first
// inbox copy appears, so an inbox never shows a message that its sender's outbox has lost.
//
// A box can be a mount point of its own, such as an inbox that is bind-mounted into a container. No
// rename crosses mounts, so the copy for such a box is staged hidden in the box itself, and a file in
// state/outgoing, its mark, leads Recover to it; the mark is durable before the copy exists. The
// archive and the dead letters use the same staging.
package mailbox
