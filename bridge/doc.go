// Package bridge reads and writes AgentPair's bridge log: an append-only file of JSON lines through
// which agents exchange records, each written once, however many goroutines and processes share the
// file.
//
// # The log
//
// [Log.Send] appends a record under a file lock (bridge.jsonl.lock), after reading what others
// appended since, with a single write that ends in a newline. It reports a record whose ID is
// already in the log, and writes nothing. AgentPair and other programs may append without the lock.
//
// A last line without a newline was left by a crash, or a program without the lock is writing it.
// Readers do not see it. The next Send waits until it is complete or has not grown for 250 ms, and
// then ends it with a newline, so that it never joins another record. A line that is not a record
// is skipped and reported with its number, and never hides the records around it.
//
// # Reading
//
// Iterators yield the log as it was when the iteration began. They hold no lock while the caller
// works on a record, and the caller may use the Log meanwhile. An error ends the iteration, except
// a *LineError from [Log.Records], which reports a skipped line. If another program wrote an ID
// twice, both records are yielded.
//
// # The index
//
// With the folder bridge.jsonl.index, the cost of sending, looking up and counting depends on what
// is new, not on the length of the log. It is derived from the log and may be deleted at any time.
//
// # Assumptions
//
// Lines are not edited in place. A Log notices a file that is replaced or cut, or whose length
// changes, but not every change of bytes in the same file. Appends by different processes do not
// interleave, as on local file systems. The lock file is not deleted while processes use the log.
package bridge
