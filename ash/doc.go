// Package ash speaks the Ash bridge protocol, both ends of it: commands and events as lines of JSON over a Unix socket.
//
// The host drives an agent that lives in a bridge process. [Client] is the host's end: it connects to a bridge, or
// starts one, and turns a query into a stream of messages. [Server] is the bridge's end: it listens on the socket and
// runs each query through a [Handler].
//
// # On the wire
//
// Each line is one JSON object. A command (host to bridge) has the field cmd, an event (bridge to host) the field ev,
// and no line has both:
//
//	bridge  {"ev":"ready"}
//	host    {"cmd":"query","prompt":"hello","sessionId":"s1"}
//	bridge  {"ev":"message","data":{"type":"assistant","text":"hi"}}
//	bridge  {"ev":"done","sessionId":"s1"}
//	host    {"cmd":"shutdown"}
//
// [CommandSchema] and [EventSchema] describe the fields. What the protocol page leaves open is settled here so:
//
//   - The data of a message is passed on byte for byte. Only a line feed between its tokens becomes a space, because
//     a line cannot hold one.
//   - A query, and a resume, starts a turn. Every turn that starts ends in exactly one done, after an error too.
//   - A message names no session, so a connection has one turn at a time; and a session has one turn at a time, over
//     all connections. A query that comes too early is refused with an error. If its connection is running a turn, the
//     next done is that turn's; if it is not, a done follows at once. A session whose turn is being aborted is not
//     refused: the new turn waits for the end of the old one.
//   - For a host, any done is that of its connection's turn, whatever session it names: a bridge may have given the
//     session an id of its own, which the host adopts.
//   - An interrupt means the turn of the connection it comes on. Its answer is that turn's done. With no turn running
//     it has no effect and no answer, so it can never hit a later query.
//   - A line that is no command gets an error, no done, and the connection goes on. A line over [MaxLine] bytes gets an
//     error and ends the connection.
//   - The end of a connection's input, half-closed or closed, is the loss of the connection and aborts its turn.
//   - Field names count exactly as written, and a name may stand only once in a line. Unknown fields of a query reach
//     the handler; elsewhere they are ignored. Hosts ignore unknown events.
package ash
