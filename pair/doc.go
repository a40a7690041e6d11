// Package pair runs paired sessions: one agent works on a task and one or both review it until the
// review passes. A run survives the death of its process.
//
// # Runs
//
// A run is a folder in AgentPair's layout (see bridge.Run): bridge.jsonl holds what the agents told
// each other, transcript.jsonl everything that happened, and manifest.json the state of the run. A
// session replaces the manifest after each step, and repeating a step changes nothing, so Resume
// continues with the unfinished step. A turn that began and did not finish is given again, in the
// agent's session if it has one, and the prompt says so.
//
// # Iterations
//
// The worker gets the task and what others wrote to it in the bridge since its last turn. Its
// answer becomes a record for its reviewers. If it says DONE and there is a proof command, the
// command must succeed first; otherwise the end of its output goes back to the worker. Then all
// reviewers, at the same time, get what is new for them and answer PASS or FAIL. When all have
// passed, the proof runs once more, and the run is complete if it succeeds. A review that fails, or
// says neither, ends the iteration once all have answered. Without reviewers, DONE and the proof
// complete the run.
//
// A session is driven by one goroutine. While several turns run, each has a goroutine of its own that
// notes what the agent shows; the session waits for all of them.
//
// # Signals
//
// A turn's signal is the last bridge record of type signal that the agent sent during the turn;
// without one it is the last line of its answer, if that is the word alone (see detect). If a turn
// took several attempts, signals sent in earlier attempts count only if the last attempt has none.
// A reviewer that says FAIL in one of the two ways and PASS in the other says FAIL.
package pair
