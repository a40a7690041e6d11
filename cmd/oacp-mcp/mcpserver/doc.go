// Package mcpserver offers an agent its mailbox and a bridge log as tools of the Model Context Protocol.
//
// A [Server] acts for one agent: what its tools send comes from that agent, and what they receive is for
// that agent. It keeps nothing between calls and takes nothing out of a mailbox or a log by itself, so an
// answer that is lost costs only a second call.
//
// Every answer is a text for the model and the same facts as structured content. A call that fails is an
// answer too, marked as an error; only the call of an unknown tool is an error of the protocol.
package mcpserver
