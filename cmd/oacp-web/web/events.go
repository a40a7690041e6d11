package web

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/mailbox/watch"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/turn/track"
)

const (
	// maxStreams is how many pages get events at the same time.
	maxStreams = 32
	// backlog is how many events may wait for a client. One that does not read more is dropped.
	backlog = 4
	// heartbeat is how often a stream that says nothing shows that it is alive.
	heartbeat = 30 * time.Second
)

// streamTimeout is how long the write of an event may take. Tests change it.
var streamTimeout = 10 * time.Second

// A hub tells all open pages what has changed.
type hub struct {
	mutex   sync.Mutex
	streams map[chan string]bool
}

// join returns a stream of events, or nil if there are too many.
func (h *hub) join() chan string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if len(h.streams) >= maxStreams {
		return nil
	}
	if h.streams == nil {
		h.streams = make(map[chan string]bool)
	}
	stream := make(chan string, backlog)
	h.streams[stream] = true
	return stream
}

// leave ends a stream, unless tell has done it.
func (h *hub) leave(stream chan string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.streams[stream] {
		delete(h.streams, stream)
		close(stream)
	}
}

// tell sends an event to all streams. It ends those that are behind.
func (h *hub) tell(event string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for stream := range h.streams {
		select {
		case stream <- event:
		default:
			delete(h.streams, stream)
			close(stream)
		}
	}
}

// serveEvents sends a browser the names of agents whose mailboxes or turns change, until it leaves.
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
		case event, open := <-stream:
			if !open {
				return
			}
			text = "event: change\ndata: " + event + "\n\n"
		}
		if !send(text) {
			return
		}
	}
}

// A sighting is what tells two states of a file or folder apart.
type sighting struct {
	modified time.Time
	size     int64
}

// sighted returns the state of what watch looks at.
func (s *Server) sighted() map[string]sighting {
	seen := make(map[string]sighting)
	agents, _ := s.w.Agents() // watch reports the error
	look(s.watched(agents), seen)
	return seen
}

// watch tells the hub about changes since the given sightings, until the context ends. The system's notifications wake
// it, and a look at the folders each second finds what file systems without them hide.
func (s *Server) watch(ctx context.Context, seen map[string]sighting) {
	if _, err := s.threads.of(ctx, ""); err != nil && ctx.Err() == nil { // so that the first page need not wait for that
		s.options.Warn(err)
	}
	for ctx.Err() == nil {
		agents, err := s.w.Agents()
		if err != nil {
			s.options.Warn(err)
		}
		known := s.watched(agents)
		folders := []string{filepath.Join(s.w.Dir(), "agents"), filepath.Join(s.w.Dir(), track.TurnsFolder)}
		for path := range known {
			folders = append(folders, path)
		}
		err = watch.Await(ctx, folders, func() (bool, error) {
			if changed := look(known, seen); len(changed) > 0 {
				s.hub.tell(strings.Join(changed, " "))
			}
			now, err := s.w.Agents()
			return err == nil && !slices.Equal(now, agents), nil
		})
		if err != nil && ctx.Err() == nil {
			s.options.Warn(err)
			return
		}
	}
}

// watched returns the paths that change with the mail and the turns of agents.
func (s *Server) watched(agents []schema.AgentName) map[string]schema.AgentName {
	paths := make(map[string]schema.AgentName)
	for _, agent := range agents {
		for _, name := range schema.Boxes() {
			paths[s.w.BoxPath(agent, mailbox.Box(name))] = agent
		}
		paths[filepath.Join(s.w.Dir(), track.TurnsFolder, track.JournalName(agent))] = agent
	}
	return paths
}

// look returns the agents of the paths that have changed since the last look, sorted.
func look(paths map[string]schema.AgentName, seen map[string]sighting) (changed []string) {
	for path, agent := range paths {
		var now sighting
		if info, err := os.Lstat(path); err == nil {
			now = sighting{info.ModTime(), info.Size()}
		}
		if now != seen[path] {
			seen[path] = now
			changed = append(changed, string(agent))
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}
