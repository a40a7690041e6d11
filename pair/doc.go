// Package pair runs paired sessions: one agent works on a task, one or both
// review it, until the review passes, with everything on disk and resumable.
//
// # A run
//
// A run is a folder of AgentPair's layout (see bridge.Run): bridge.jsonl is
// what the agents told each other, transcript.jsonl all that happened, an
// entry a line, and manifest.json where the run stands. The manifest is
// replaced as a whole after each step, and a step is made so that doing it
// again does nothing twice: whatever kills the process, Resume goes on with
// the step that was not finished. A turn that was begun and not finished is
// given again, in the agent's session where it has one; the prompt says so.
//
// # An iteration
//
// The worker is given what others wrote to it in the bridge since the last
// record it was given, the task first. What it answers becomes a record for
// its reviewers. If it says DONE and there is a proof command, the command
// must succeed first; otherwise the end of its output goes back to the worker.
// Then each reviewer is given what is new for it and answers with PASS or
// FAIL. When all have passed the proof is run once more, and if it succeeds
// the run is complete. A review that fails, or says neither, ends the
// iteration. With nobody to review, DONE and the proof complete the run.
//
// # Signals
//
// A signal is a bridge record of type signal that the agent sent during its
// turn, the last one if there are several; otherwise the last line of its
// answer that is not blank, if that is the word and nothing else (see Detect).
// Where a turn took several attempts, what was sent during those before the
// last counts only if that one says nothing. A reviewer that says FAIL in one
// of the two ways and PASS in the other says FAIL.
package pair
