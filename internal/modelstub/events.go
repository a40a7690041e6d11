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
	// serial tells the ids of one answer from those of all others.
	serial int
}

func (e *events) id(kind string, n int) string { return fmt.Sprintf("%s_%d_%d", kind, e.serial, n) }

// send writes one event. What went wrong is the asker's to see.
func (e *events) send(kind string, fields map[string]any) {
	fields["type"] = kind
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // a script's tool input that has no JSON form
	}
	_, _ = fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", kind, data)
	_ = http.NewResponseController(e.w).Flush()
}

// pause does what the reply says for the middle of an answer.
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
