package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// inputLine is what came in up to a newline, or to the end of the input.
type inputLine struct {
	text []byte
	err  error // of the input: io.EOF or another one; or errLongLine
}

// errLongLine stands for a line over maxRequest, which was read past.
var errLongLine = fmt.Errorf("a message has at most %d bytes", maxRequest)

// readLines hands on the lines of the input, and then the error that ended it, until stop is closed.
func readLines(in io.Reader, to chan<- inputLine, stop <-chan struct{}) {
	hand := func(l inputLine) bool {
		select {
		case to <- l:
			return true
		case <-stop:
			return false
		}
	}
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		text, long, err := readLine(reader)
		if long && !hand(inputLine{err: errLongLine}) {
			return
		}
		if !long && len(bytes.TrimSpace(text)) > 0 && !hand(inputLine{text: text}) {
			return
		}
		if err != nil {
			hand(inputLine{err: err})
			return
		}
	}
}

// readLine reads a line. Of one over maxRequest nothing is kept.
func readLine(reader *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := reader.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxRequest; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// A badMessage is what cannot be handed on, and how to answer it.
type badMessage struct {
	id     json.RawMessage // null where it is not known
	code   int64
	reason string
}

func (b badMessage) Error() string { return b.reason }

// answer is the answer to a bad message, in JSON.
func (b badMessage) answer() ([]byte, error) {
	id := b.id
	if id == nil {
		id = json.RawMessage("null")
	}
	return json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", id, jsonrpc.Error{Code: b.code, Message: b.reason}})
}

// splitBatch returns the messages of a line, which are several in a batch.
func splitBatch(line []byte) (messages []json.RawMessage, batch bool, err error) {
	line = bytes.TrimSpace(line)
	if !json.Valid(line) {
		return nil, false, badMessage{nil, jsonrpc.CodeParseError, "a line is one message in JSON, and this one is none"}
	}
	if line[0] != '[' {
		return []json.RawMessage{line}, false, nil
	}
	if err := json.Unmarshal(line, &messages); err != nil {
		return nil, true, badMessage{nil, jsonrpc.CodeParseError, err.Error()}
	}
	if len(messages) == 0 {
		return nil, true, badMessage{nil, jsonrpc.CodeInvalidRequest, "a batch holds at least one message"}
	}
	return messages, true, nil
}

// isExact reports whether a whole number is one that every JSON library reads as it is.
func isExact(number json.RawMessage) bool {
	value, err := strconv.ParseFloat(string(number), 64)
	return err == nil && math.Abs(value) < 1<<53
}

// parseMessage reads a message, or says what is wrong with it.
func parseMessage(text json.RawMessage) (jsonrpc.Message, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		return nil, badMessage{nil, jsonrpc.CodeInvalidRequest, "a message is a JSON object"}
	}
	id, hasID := fields["id"]
	switch kind := kindOf(id); {
	case !hasID, kind == "string":
	case kind != "integer" || !isExact(id):
		return nil, badMessage{nil, jsonrpc.CodeInvalidRequest, "an id is a text or a whole number of at most 53 bits"}
	}
	message, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, badMessage{id, jsonrpc.CodeInvalidRequest, err.Error()}
	}
	return message, nil
}
