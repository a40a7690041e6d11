// Package pair runs paired sessions: one agent works on a task and one or both review it until the
// review passes. A run survives the death of its process.
//
// # Runs
//
// A run is a folder in AgentPair's layout (see bridge.Run): bridge.jsonl has the records of the
// agents, transcript.jsonl everything that happened, and manifest.json the state of the run. A
// session replaces the manifest after each step, and repeating a step changes nothing, so Resume
// continues with the unfinished step. An interrupted turn is repeated, in the agent's session if it
// has one, and the prompt says so.
//
// # Iterations
//
// The worker gets the task and the records that others sent to it since its last turn. Its answer
// becomes a record for its reviewers. If it says DONE and there is a proof command, the command
// must succeed first; otherwise the worker gets the end of its output. Then all reviewers get the
// new records in parallel, and answer PASS or FAIL. When all have passed, the proof runs again, and
// the run is complete if it succeeds. If a reviewer says FAIL or neither, the iteration ends once
// all have answered. Without reviewers, DONE and the proof complete the run.
//
// One goroutine drives a session. Each of several concurrent turns has a goroutine that records the
// agent's output; the session waits for all of them.
//
// # Signals
//
// A turn's signal is the last bridge record of type signal that the agent sent during the turn, in any
// attempt at it; without one it is the last line of its answer, if that line is just the word (see
// detect). A reviewer that sends PASS and ends its answer with FAIL says FAIL.
package pair
