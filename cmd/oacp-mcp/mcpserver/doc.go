// Package mcpserver offers mailboxes and bridge logs to agents as tools of the Model Context Protocol.
//
// A [Server] acts for one agent: what its tools send comes from that agent, and what they receive is that
// agent's. It answers on a stream of lines (standard input and output of a process that a client started, see
// [Server.ServeStream]) and over streamable HTTP (see [Server.Listen]).
//
// # Tools
//
// send_to_agent, receive_messages and bridge_status work on a bridge log, with the arguments and answers that
// AgentPair's MCP page documents. send_message, list_inbox, read_message, reply_message, acknowledge_message,
// show_thread and validate_message work on the mailboxes of a workspace.
//
// Every answer is a text for the model and the same facts as structured content. What goes wrong with a call is
// an answer too, marked as an error, that says what to do about it: only a call of a tool that does not exist is an
// error of the protocol.
//
// # Nothing is lost
//
// The server keeps nothing between calls and takes nothing out of a mailbox or log on its own: messages stay in
// the inbox until acknowledge_message, and receive_messages gives again whatever stands behind the id that the
// caller names. An answer that its client never read costs nothing but a second call.
package mcpserver
