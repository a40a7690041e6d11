package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/jsonl"
	"github.com/oacp-go/oacp/pair"
)

// latestRuns is how many runs of a repository a source reads.
const latestRuns = 50

// runReading is the last reading of a run.
type runReading struct {
	run                                   Run
	manifest, bridge, transcript          fileMark
	manifestErr, bridgeErr, transcriptErr error
	neverBegun                            error // there is no manifest yet
	ours                                  bool  // an oacp pair made the run
	offset                                int64 // of the first unread line of the transcript
	seen                                  int
}

// gatherRuns adds the runs to a snapshot.
func (s *source) gatherRuns(ctx context.Context, snapshot *Snapshot) {
	if s.config.RunsRoot == "" {
		return
	}
	repositories := []string{s.config.RepositoryID}
	var err error
	if s.config.RepositoryID == "" {
		repositories, err = bridge.Repositories(s.config.RunsRoot)
	}
	for _, repository := range repositories {
		runs, listErr := bridge.Runs(s.config.RunsRoot, repository)
		err = errors.Join(err, listErr)
		for _, run := range runs[max(0, len(runs)-latestRuns):] {
			snapshot.Runs = append(snapshot.Runs, s.run(ctx, run))
		}
	}
	if err != nil {
		snapshot.Problem = err.Error()
	}
	slices.SortStableFunc(snapshot.Runs, func(a, b Run) int { return cmp.Or(b.Updated.Compare(a.Updated), b.ID-a.ID) })
}

// run returns the state of a run, and reads the files of it that have changed.
func (s *source) run(ctx context.Context, run bridge.Run) Run {
	r := s.runs[run.Folder]
	if r == nil {
		r = &runReading{run: Run{ID: run.ID, RepositoryID: run.RepositoryID, place: run}}
		s.runs[run.Folder] = r
	}
	if r.seen == 0 || markOf(run.ManifestPath()) != r.manifest {
		r.readManifest()
	}
	r.seen = s.current
	drivenErr := r.findDriver()
	if now := markOf(run.BridgePath()); now != r.bridge {
		r.bridge, r.bridgeErr = now, r.readBridge(ctx)
		if r.run.State == stateLog { // nobody updates its manifest
			r.run.Updated = now.modified.UTC().Truncate(time.Second)
		}
	}
	if now := markOf(run.TranscriptPath()); now != r.transcript {
		r.transcript, r.transcriptErr = now, r.readTranscript()
	}
	r.run.Problem = ""
	if err := errors.Join(r.manifestErr, drivenErr, r.bridgeErr, r.transcriptErr); err != nil {
		r.run.Problem = err.Error()
	}
	return r.run
}

// findDriver finds out whether a process drives the run, unless the run is over.
func (r *runReading) findDriver() error {
	r.run.Driven = nil
	if r.run.State.Final() || !r.ours && r.neverBegun == nil {
		return nil
	}
	driven, err := pair.Driven(r.run.place)
	if err != nil {
		return err
	}
	// A process that has just left may have written the manifest once more since it was read.
	if !driven && markOf(r.run.place.ManifestPath()) != r.manifest {
		if r.readManifest(); r.manifestErr != nil || r.run.State.Final() {
			return nil
		}
	}
	if !driven && r.neverBegun != nil {
		return r.neverBegun
	}
	r.run.Driven = &driven
	return nil
}

// readManifest reads the manifest.
func (r *runReading) readManifest() {
	r.manifest = markOf(r.run.place.ManifestPath())
	m, err := pair.ReadManifest(r.run.place)
	r.ours, r.neverBegun, r.manifestErr = err == nil, nil, nil
	switch {
	case errors.Is(err, pair.ErrNeverBegun):
		r.neverBegun = err
		return
	case err != nil && !errors.Is(err, pair.ErrForeignRun):
		r.manifestErr = err
		return
	}
	r.run.Repository, r.run.Prompt, r.run.State = m.RepoPath, m.Prompt, m.State
	if m.IsLog() {
		r.run.State = stateLog
	}
	r.run.Iteration, r.run.MaxIterations = m.CurrentIteration, m.MaxIterations
	r.run.Updated, r.run.Error, r.run.Turn, r.run.Turns = m.UpdatedAt.UTC().Truncate(time.Second), m.Error, "", m.Waiting()
	if len(r.run.Turns) > 0 {
		r.run.Turn = r.run.Turns[0]
	}
}

// readBridge counts the records of the bridge log.
func (r *runReading) readBridge(ctx context.Context) (err error) {
	log, err := r.run.place.Open(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	r.run.Bridge, err = log.Status(ctx)
	return err
}

// maxEntry bounds the lines of a transcript that may hold usage; an agent's own event may be
// longer.
const maxEntry = 4 << 20

// believable reports whether a turn can use so much. Sums of other numbers may overflow.
func believable(used float64) bool { return used >= 0 && used <= 1e12 }

// readTranscript adds the usage in the new lines of the transcript. It skips lines that are not
// entries.
func (r *runReading) readTranscript() error {
	file, err := durable.OpenRegular(r.run.place.TranscriptPath(), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close() // only read
	for reader := jsonl.NewReader(file, maxEntry); ; {
		var line []byte
		line, r.offset, err = reader.Line(r.offset)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, jsonl.ErrTooLong):
			continue
		case err != nil:
			return err
		}
		var entry pair.Entry
		if !bytes.Contains(line, []byte(`"usage"`)) || json.Unmarshal(line, &entry) != nil {
			continue
		}
		usage := entry.Usage
		if !believable(float64(usage.InputTokens)) || !believable(float64(usage.OutputTokens)) || !believable(usage.CostUSD) {
			continue
		}
		tokens := usage.InputTokens + usage.OutputTokens
		r.run.CostUSD += usage.CostUSD
		r.run.Tokens += tokens
		if usage.CostUSD == 0 {
			r.run.UnpricedTokens += tokens
		}
	}
}
