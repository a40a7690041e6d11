package mcpserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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

// RunLog returns the log of a repository's run under root. A run that is named must be there, or the error
// matches bridge.ErrNoRun; with the id 0 it is the latest run, or run 1, which the first record then makes. So
// servers that start at the same time, one for each agent, always mean the same log.
func RunLog(root, repository string, id int) (BridgeLog, error) {
	repositoryID, err := bridge.RepositoryID(repository)
	if err != nil {
		return BridgeLog{}, err
	}
	if id != 0 {
		run, err := bridge.FindRun(root, repositoryID, id)
		return BridgeLog{Path: run.BridgePath(), RunID: run.ID}, err
	}
	runs, err := bridge.Runs(root, repositoryID)
	if err != nil {
		return BridgeLog{}, err
	}
	run := bridge.Run{RepositoryID: repositoryID, ID: 1, Folder: filepath.Join(root, repositoryID, "1")}
	if len(runs) > 0 {
		run = runs[len(runs)-1]
	}
	makeRun := func() error {
		_, err := bridge.MakeRun(root, repository, run.ID, time.Now())
		return err
	}
	return BridgeLog{Path: run.BridgePath(), RunID: run.ID, Make: makeRun}, nil
}

// FileLog returns the log at path. Its folder must be there. Where the folder is named like a run, its records
// belong to that run.
func FileLog(path string) (BridgeLog, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return BridgeLog{}, fmt.Errorf("bridge log: %w", err)
	}
	folder := filepath.Dir(path)
	if info, err := os.Stat(folder); err != nil {
		return BridgeLog{}, fmt.Errorf("bridge log: %w", err)
	} else if !info.IsDir() {
		return BridgeLog{}, fmt.Errorf("bridge log: %s is no folder", folder)
	}
	run, err := strconv.Atoi(filepath.Base(folder))
	if err != nil || run < 1 {
		run = 0
	}
	return BridgeLog{Path: path, RunID: run}, nil
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
