// Package bridge is AgentPair's bridge log: an append-only JSONL file through which agents exchange
// records, each written once, however many goroutines and processes share the file.
//
// # The log
//
// A log is one JSON object a line (see [Record]), in the order of sending. [Log.Send] appends under a file
// lock (bridge.jsonl.lock), after reading what others appended since, with a single write that ends in a
// newline; a record whose id already stands in the log is reported, not written. Writers that do not take
// the lock, AgentPair itself among them, are coped with: lines are found where they stand, never where they
// were expected.
//
// A last line without a newline is the trace of a crash, or somebody without our lock is writing it. Readers do
// not see it. The next Send waits until it is whole or the log has not been written for two seconds; then it
// closes it off with a newline before appending, so it is never merged with another record. A line that is no record is
// skipped and reported with its number, and never hides the records around it.
//
// # Reading
//
// Iterators give the log as it is when they are first asked. They hold no lock while the caller works on
// what they yield, and the caller may use the Log meanwhile. An error ends them, with one exception: a
// *LineError from [Log.Records] reports a skipped line, and the next line follows. Each line counts: where a
// foreign writer wrote an id twice, the record is given twice.
//
// # The index
//
// Beside the log stands a folder, bridge.jsonl.index, that makes the cost of sending, draining, looking up
// and counting follow what is new instead of what is there, also in a process that has just started. It
// is derived from the log alone and may be deleted at any time: see index.go for its form and for what
// happens when it is lost, stale, damaged or another log's.
//
// # What is assumed
//
// Lines once written are not edited in place: an editor or tool that replaces the file, shortens it or
// changes its length is noticed, one that overwrites bytes of the same file without changing its length may
// not be. Appends by different processes do not interleave (true of local file systems). The lock file is
// not deleted while processes use the log.
package bridge
