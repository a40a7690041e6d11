package mcpserver

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/oacp-go/oacp/bridge"
)

// openLog opens a log when it is first used. If its run is missing, the first record sent makes it. So
// servers that start at the same time, one for each agent, always mean the same log.
type openLog struct {
	place bridge.Location
	warn  func(error)

	mu  sync.Mutex
	log *bridge.Log
}

// reading returns the log, or nil if its run does not exist yet.
func (o *openLog) reading() (*bridge.Log, error) {
	log, err := o.open()
	if o.place.Missing && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return log, err
}

// sending returns the log, and makes its run if that is missing.
func (o *openLog) sending() (*bridge.Log, error) {
	if o.place.Missing {
		if err := o.place.Make(time.Now()); err != nil {
			return nil, fmt.Errorf("making the folder of the bridge log: %w", err)
		}
	}
	return o.open()
}

func (o *openLog) open() (*bridge.Log, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log == nil {
		log, err := bridge.Open(o.place.Path, &bridge.Options{RunID: o.place.Run.ID, Warn: o.warn})
		if err != nil {
			return nil, err
		}
		o.log = log
	}
	return o.log, nil
}

func (o *openLog) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.log == nil {
		return nil
	}
	return o.log.Close()
}
