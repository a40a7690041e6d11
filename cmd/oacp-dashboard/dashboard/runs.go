package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/pair"
)

// latestRuns is how many runs of a repository are looked at.
const latestRuns = 50

// runReading is what was last read of a run.
type runReading struct {
	run                           Run
	manifest, bridge, transcript  fileMark
	offset                        int64 // how much of the transcript was read
	manifestErr, bridgeErr, error error
	kind                          runKind
	seen                          int
}

// runKind says whose run it is.
type runKind int

const (
	unreadable runKind = iota
	unwritten          // there is no manifest yet
	foreign            // AgentPair's own
	ours
)

// fileMark changes when a file does.
type fileMark struct {
	modified time.Time
	size     int64
}

func markOf(path string) fileMark {
	info, err := os.Stat(path)
	if err != nil {
		return fileMark{}
	}
	return fileMark{info.ModTime(), info.Size()}
}

// gatherRuns tells how it stands with the runs.
func (s *Source) gatherRuns(ctx context.Context, snapshot *Snapshot) {
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
	slices.SortStableFunc(snapshot.Runs, func(a, b Run) int {
		if c := b.Updated.Compare(a.Updated); c != 0 {
			return c
		}
		return b.ID - a.ID
	})
}

// run tells how it stands with a run, and reads what has changed of it.
func (s *Source) run(ctx context.Context, run bridge.Run) Run {
	r := s.runs[run.Folder]
	if r == nil {
		r = &runReading{run: Run{ID: run.ID, RepositoryID: run.RepositoryID, place: run}}
		s.runs[run.Folder] = r
	}
	first := r.seen == 0
	r.seen = s.current
	if now := markOf(run.ManifestPath()); first || now != r.manifest {
		r.manifest, r.manifestErr = now, r.readManifest(run)
	}
	drivenErr := r.findDriver(run)
	if now := markOf(run.BridgePath()); now != r.bridge {
		r.bridge, r.bridgeErr = now, r.readBridge(ctx, run)
	}
	if now := markOf(run.TranscriptPath()); now != r.transcript {
		r.transcript, r.error = now, r.readTranscript(run.TranscriptPath())
	}
	r.run.Problem = ""
	if err := errors.Join(r.manifestErr, drivenErr, r.bridgeErr, r.error); err != nil {
		r.run.Problem = err.Error()
	}
	return r.run
}

// findDriver tells whether a process drives a run that is not over.
func (r *runReading) findDriver(run bridge.Run) error {
	r.run.Driven = nil
	if r.run.State.Final() || r.kind != ours && r.kind != unwritten {
		return nil
	}
	driven, err := pair.Driven(run)
	if err != nil {
		return err
	}
	if !driven {
		// The process may have ended since the manifest was read, and the run
		// with it: nothing is written behind its back.
		if now := markOf(run.ManifestPath()); now != r.manifest {
			if r.manifest, r.manifestErr = now, r.readManifest(run); r.manifestErr != nil || r.run.State.Final() {
				return nil
			}
		}
		if r.kind == unwritten {
			return errNoManifest
		}
	}
	r.run.Driven = &driven
	return nil
}

// errNoManifest says that whoever made a run's folder has left it at that.
var errNoManifest = errors.New("it has no manifest")

// readManifest reads the manifest. One of AgentPair's own has the same names.
func (r *runReading) readManifest(run bridge.Run) error {
	m, err := pair.ReadManifest(run)
	r.kind = ours
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.kind = unwritten
		return nil
	case errors.Is(err, pair.ErrForeignRun):
		r.kind = foreign
		m, err = readForeign(run.ManifestPath())
	}
	if err != nil {
		r.kind = unreadable
		return err
	}
	r.run.Repository, r.run.Prompt, r.run.State = m.RepoPath, m.Prompt, m.State
	r.run.Iteration, r.run.MaxIterations = m.CurrentIteration, m.MaxIterations
	r.run.Updated, r.run.Error, r.run.Turn = m.UpdatedAt, m.Error, ""
	if m.Turn != nil && !m.State.Final() {
		r.run.Turn = m.Turn.Agent
	}
	return nil
}

func readForeign(path string) (m pair.Manifest, err error) {
	const most = 1 << 20
	file, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer file.Close() // it is only read
	data, err := io.ReadAll(io.LimitReader(file, most))
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	return m, err
}

// readBridge counts what the log holds.
func (r *runReading) readBridge(ctx context.Context, run bridge.Run) (err error) {
	log, err := run.Open(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	r.run.Bridge, err = log.Status(ctx)
	return err
}

// readTranscript adds up what was used in the turns that the transcript has
// more than at the last reading.
func (r *runReading) readTranscript(path string) (err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close() // it is only read
	if _, err := file.Seek(r.offset, io.SeekStart); err != nil {
		return err
	}
	reader := bufio.NewReaderSize(file, 64<<10)
	for {
		line, length, err := readLine(reader)
		if errors.Is(err, io.EOF) {
			return nil // what is left is no whole line yet
		}
		if err != nil {
			return err
		}
		r.offset += length
		r.addUsage(line)
	}
}

// addUsage adds what a line of the transcript tells to have been used. A line
// that is none is the transcript's own matter.
func (r *runReading) addUsage(line []byte) {
	if !bytes.Contains(line, []byte(`"usage"`)) {
		return
	}
	var entry pair.Entry
	if json.Unmarshal(line, &entry) != nil || entry.Usage == nil {
		return
	}
	tokens := entry.Usage.InputTokens + entry.Usage.OutputTokens
	r.run.CostUSD += entry.Usage.CostUSD
	r.run.Tokens += tokens
	if entry.Usage.CostUSD == 0 {
		r.run.UnpricedTokens += tokens
	}
}

// readLine returns a line and its length. Of one that is longer than any
// answer is, which an agent's own event may be, it returns nothing but the
// length.
func readLine(reader *bufio.Reader) (line []byte, length int64, err error) {
	const most = 4 << 20
	for {
		part, err := reader.ReadSlice('\n')
		length += int64(len(part))
		if length <= most {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, length, err
		}
	}
}
