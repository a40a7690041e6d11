// Package powercut finds out what a cut of the power leaves of a folder, so that tests can recover it and look.
//
// A test records the programs that change a folder, lets a [Model] say which states the disk may be in after the power
// fails at any moment, writes each state to a folder of its own, recovers it and checks it:
//
//	recording := powercut.NewRecording(t, folder)
//	recording.Run(t, command)                             // as often as it wants
//	for cut := range recording.Cuts(model, bound) { … }   // cut.Disk.Write(another folder), recover, check
//
// # What is recorded
//
// The file system is recorded at its last seam, the system calls of a program and of all that it starts, because every
// earlier one has something beside it: durable.FileSystem has only deliveries, and journals, logs, locks and git do not
// pass it. A [Recorder] serializes the calls that change the folder, so their order is certain. What it makes of them must
// yield the folder as the programs left it; NewRecording's Run checks that. It runs on Linux.
//
// # The models
//
// A folder maps names to nodes, which are folders or bytes. An [Operation] changes the names of one folder (or, when a file
// moves, of two), or the bytes of a file, or makes one node durable: a sync. A Model is a value that decides which
// operations a disk remembers. Both models here keep what a successful sync promises, and that is all that they share:
//
//	[Ordered]  ext4 with data=ordered. The journal orders all names of all folders, and a sync of anything makes every
//	           name before it durable. Bytes reach the disk later than names: those not synced are there, or missing.
//	[Weak]     what POSIX leaves open, and btrfs and XFS come close to. Names are ordered only within their folder, and
//	           durable only after its sync. A move between two folders may keep both names, but never loses both: a rename
//	           is one step of every journaling file system. Bytes not synced are there, missing, torn after a half, or
//	           zeroes up to their length.
//
// btrfs is weaker than Weak in one respect: the sync of a file makes its name durable, too, before older names of its folder.
//
// A model adds nothing to a disk that no operation wrote, so it has neither bit rot nor disks that lie about a sync.
//
// # Bounds
//
// Recording.Cuts has every prefix of the operations: the power may fail before each of them and after the last one. The states
// of one prefix are all of them if they are at most the bound. Otherwise they are the two extremes, nothing remembered and
// everything; the states in which one folder or file differs from an extreme; and a sample of the rest, drawn with a fixed
// seed. Cuts counts those that it left out. Equal states of a command are yielded once.
package powercut
