// Package bridge reads and writes AgentPair's bridge log: an append-only file of JSON lines through
// which agents exchange records. Each record is written once, even if many goroutines and processes
// share the file.
//
// # The log
//
// [Log.Send] appends a record under a file lock (bridge.jsonl.lock), after reading what others
// appended since, with a single write that ends in a newline. If the log already has a record with
// the ID, Send writes nothing and reports that record. AgentPair and other programs may append without
// the lock.
//
// A crash may leave a last line without a newline, and a program without the lock may still be writing
// one. Readers do not see such a line. The next Send waits until it is complete or has not grown for 250
// ms, and then ends it with a newline, so that it never becomes part of another record. Readers skip a
// line that is not a record and report its number.
//
// # Reading
//
// Iterators yield the log as it was when the iteration began. They hold no lock while the caller
// handles a record, so the caller may use the Log. An error ends the iteration, except a *LineError
// from [Log.Records], which reports a skipped line. If another program wrote an ID twice, both
// records are yielded.
//
// # The index
//
// With the folder bridge.jsonl.index, the cost of sending, lookups and counting depends on the
// number of new records, not on the length of the log. The index is derived from the log and may be
// deleted at any time.
//
// # Assumptions
//
// Nobody edits lines in place: a Log notices if its file is replaced or truncated, but not every change
// of bytes in the same file. Appends by different processes do not interleave, as on local file
// systems. Nobody deletes the lock file while processes use the log.
package bridge
