package mcpserver

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/oacp-go/oacp/bridge"
)

// BridgeLog names the log that the bridge tools work on.
type BridgeLog struct {
	// Path is the log's file, which need not exist yet.
	Path string
	// RunID is given to the records that are sent.
	RunID int
	// Make, where it is set, makes the log's folder before the first record is sent. It may be called again.
	Make func() error
}

// LogAt returns the log at a location. The first record sent makes a run that is missing. So servers that
// start at the same time, one for each agent, always mean the same log.
func LogAt(location bridge.Location) BridgeLog {
	log := BridgeLog{Path: location.Path, RunID: location.Run.ID}
	if location.Missing {
		log.Make = func() error { return location.Make(time.Now()) }
	}
	return log
}

// openLog opens a log when it is first used: a server that is only asked for mail needs none, and makes none.
type openLog struct {
	place BridgeLog
	warn  func(error)

	mu     sync.Mutex
	log    *bridge.Log
	closed bool
}

// reading returns the log, or nil where not even its folder exists: then there are no records.
func (o *openLog) reading() (*bridge.Log, error) {
	log, err := o.open()
	if o.place.Make != nil && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return log, err
}

// sending returns the log, and makes its folder if it may.
func (o *openLog) sending() (*bridge.Log, error) {
	if o.place.Make != nil {
		if err := o.place.Make(); err != nil {
			return nil, fmt.Errorf("making the folder of the bridge log: %w", err)
		}
	}
	return o.open()
}

func (o *openLog) open() (*bridge.Log, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, bridge.ErrClosed
	}
	if o.log != nil {
		return o.log, nil
	}
	log, err := bridge.Open(o.place.Path, &bridge.Options{RunID: o.place.RunID, Warn: o.warn})
	if err != nil {
		return nil, err
	}
	o.log = log
	return log, nil
}

func (o *openLog) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.log == nil {
		return nil
	}
	return o.log.Close()
}
