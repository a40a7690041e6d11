package modelstub

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// events writes server-sent events.
type events struct {
	w   http.ResponseWriter
	ctx context.Context
	// serial distinguishes the ids of answers.
	serial int
}

func (e *events) id(kind string, n int) string { return fmt.Sprintf("%s_%d_%d", kind, e.serial, n) }

// send writes an event. The asker notices if that fails.
func (e *events) send(kind string, fields map[string]any) {
	fields["type"] = kind
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // a script's tool input that has no JSON form
	}
	_, _ = fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", kind, data)
	_ = http.NewResponseController(e.w).Flush()
}

// pause delays or cuts the answer as the reply says.
func (e *events) pause(reply Reply) {
	if reply.Cut {
		panic(http.ErrAbortHandler)
	}
	if reply.Hold == nil {
		return
	}
	select {
	case <-reply.Hold:
	case <-e.ctx.Done():
		panic(http.ErrAbortHandler)
	}
}

// pieces cuts a text in two, as a model streams it.
func pieces(text string) []string {
	half := len(text) / 2
	for half > 0 && text[half]&0xC0 == 0x80 {
		half--
	}
	if half == 0 {
		return []string{text}
	}
	return []string{text[:half], text[half:]}
}
