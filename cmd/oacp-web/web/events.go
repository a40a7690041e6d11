package web

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

const (
	// maxStreams is how many pages get events at the same time.
	maxStreams = 32
	// heartbeat is how often a stream that says nothing shows that it is alive.
	heartbeat = 30 * time.Second
)

// streamTimeout is how long the write of an event may take. Tests change it.
var streamTimeout = 10 * time.Second

// A hub tells all open pages that something has changed.
type hub struct {
	mutex   sync.Mutex
	streams map[chan struct{}]bool
}

// join returns a stream of changes, or nil if there are too many. Changes that were not read yet count as one.
func (h *hub) join() chan struct{} {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if len(h.streams) >= maxStreams {
		return nil
	}
	if h.streams == nil {
		h.streams = make(map[chan struct{}]bool)
	}
	stream := make(chan struct{}, 1)
	h.streams[stream] = true
	return stream
}

func (h *hub) leave(stream chan struct{}) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	delete(h.streams, stream)
}

func (h *hub) tell() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for stream := range h.streams {
		select {
		case stream <- struct{}{}:
		default:
		}
	}
}

// serveEvents tells a browser when mailboxes or turns change, until it leaves.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	stream := s.hub.join()
	if stream == nil {
		s.refuse(w, r, http.StatusServiceUnavailable, "Too many pages get events.")
		return
	}
	defer s.hub.leave(stream)
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(text string) bool {
		err := control.SetWriteDeadline(time.Now().Add(streamTimeout))
		if err == nil {
			_, err = fmt.Fprint(w, text)
		}
		if err == nil {
			err = control.Flush()
		}
		return err == nil
	}
	if control.SetReadDeadline(time.Time{}) != nil || !send("retry: 2000\n\n") {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		text := ":\n\n"
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
		case <-stream:
			text = "event: change\ndata:\n\n"
		}
		if !send(text) {
			return
		}
	}
}

// watch tells the hub about changes since what look saw, until the context ends. The system's notifications wake it, and a
// look at the folders each second finds what file systems without them hide.
func (s *Server) watch(ctx context.Context, seen string) {
	if _, err := s.threads.of(ctx, ""); err != nil && ctx.Err() == nil { // so that the first page need not wait for that
		s.options.Warn(err)
	}
	for ctx.Err() == nil {
		paths := s.watched()
		err := watch.Await(ctx, paths, func() (bool, error) {
			now := look(paths)
			changed := now != seen
			if seen = now; changed {
				s.hub.tell()
			}
			return changed, nil // there may be other agents
		})
		if err != nil && ctx.Err() == nil {
			s.options.Warn(err)
			return
		}
	}
}

// watched returns the paths that change with the mail and the turns of agents.
func (s *Server) watched() []string {
	turns := filepath.Join(s.w.Dir(), track.TurnsFolder)
	paths := []string{filepath.Join(s.w.Dir(), "agents"), turns}
	agents, err := s.w.Agents()
	if err != nil {
		s.options.Warn(err)
	}
	for _, agent := range agents {
		for _, name := range schema.Boxes() {
			paths = append(paths, s.w.BoxPath(agent, name))
		}
		paths = append(paths, filepath.Join(turns, track.JournalName(agent)))
	}
	return paths
}

// look returns what tells two states of files and folders apart.
func look(paths []string) string {
	var state strings.Builder
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil {
			fmt.Fprintln(&state, path, info.ModTime().UnixNano(), info.Size())
		}
	}
	return state.String()
}
