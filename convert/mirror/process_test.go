package mirror

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/schema"
)

// The test binary runs itself as other processes. childRole is the direction of the mirror that
// such a process runs once on the workspace and log in childDir; it is killed after childLife, if
// that is set, and cannot write files larger than childLimit bytes, if that is set.
const (
	childRole  = "OACP_TEST_MIRROR"
	childDir   = "OACP_TEST_DIR"
	childLife  = "OACP_TEST_LIFE"
	childLimit = "OACP_TEST_LIMIT"
)

func runChild(role string) int {
	err := mirrorInChild(Direction(role))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func mirrorInChild(direction Direction) (err error) {
	w, err := mailbox.Open(filepath.Join(os.Getenv(childDir), "work"), &mailbox.Options{NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	log, err := bridge.Open(filepath.Join(os.Getenv(childDir), "bridge.jsonl"), &bridge.Options{RunID: 1, NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if limit := os.Getenv(childLimit); limit != "" {
		err = limitFiles(limit)
	}
	if err != nil {
		return err
	}
	if life, err := time.ParseDuration(os.Getenv(childLife)); err == nil {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		time.AfterFunc(life, func() { _ = self.Kill() })
	}
	m := Mirror{Workspace: w, Log: log, Direction: direction}
	_, err = m.Run(context.Background())
	return err
}

func child(dir string, direction Direction, settings ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childRole+"="+string(direction), childDir+"="+dir), settings...)
	return cmd
}

// crowd makes a place with all that a mirror meets: many messages, the same words again and again,
// several recipients, short and foreign file names, records of all kinds, broken lines and
// strangers.
func crowd(t testing.TB, size int) *place {
	t.Helper()
	p := newPlace(t, "claude", "codex", "gemini")
	random := rand.New(rand.NewPCG(1, 2))
	agents := []schema.AgentName{"claude", "codex", "gemini"}
	var records []bridge.Record
	var drafts []schema.Message
	for i := range size {
		from := random.IntN(3)
		m := message([]schema.Type{schema.TaskRequest, schema.Question, schema.ReviewLGTM, schema.Notification}[random.IntN(4)])
		m.From, m.To = agents[from], []schema.AgentName{agents[(from+1)%3]}
		if random.IntN(4) == 0 {
			m.To = append(m.To, agents[(from+2)%3])
		}
		m.CreatedAt = schema.NewTimestamp(time.Unix(1_700_000_000+int64(i), 0))
		m.ID = schema.ID(fmt.Sprintf("msg-%s-%s-%06d", time.Unix(1_700_000_000+int64(i), 0).UTC().Format("20060102T1504Z"), m.From, i))
		m.Body = schema.TextValue(fmt.Sprint("words ", random.IntN(size/4+1)))
		drafts = append(drafts, m)

		r := record(bridge.Types()[random.IntN(3)], "", []string{"claude", "codex", "unknown"}[random.IntN(3)],
			[]string{"gemini", "gemini", "", "nobody"}[random.IntN(4)], fmt.Sprint("words ", random.IntN(size/4+1)))
		switch random.IntN(3) {
		case 0:
			r.ID = fmt.Sprintf("%016x%048x", random.Uint64(), i)
		case 1:
			r.ID = fmt.Sprint("foreign-", i)
		}
		records = append(records, r)
	}
	for _, result := range p.workspace.SendAll(context.Background(), drafts, nil) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		if random.IntN(8) == 0 {
			foreign := filepath.Join(filepath.Dir(result.Receipt.Outbox), fmt.Sprintf("by hand %d.yaml", random.Int()))
			if err := os.Rename(result.Receipt.Outbox, foreign); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.append(records[:size/2]...)
	p.write("garbage", `{"type":"signal","signal":"PASS","from":"claude","content":"no id, no time"}`)
	p.append(records[size/2:]...)
	return p
}

// copyOf copies a place.
func copyOf(t testing.TB, p *place) *place {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(p.workspace.Dir()))); err != nil {
		t.Fatal(err)
	}
	return openPlace(t, filepath.Join(dir, "work"), filepath.Join(dir, "bridge.jsonl"))
}

func (p *place) dir() string { return filepath.Dir(p.workspace.Dir()) }

// TestKilledAndRunAgain kills mirrors at random points; CONVERT_TEST_LONG=1 does so more often.
func TestKilledAndRunAgain(t *testing.T) {
	t.Parallel()
	original := crowd(t, 120)
	clean := copyOf(t, original)
	start := time.Now()
	if err := child(clean.dir(), Both).Run(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	want := clean.snapshot()
	rounds, killed := 4, 0
	if os.Getenv("CONVERT_TEST_LONG") != "" {
		rounds = 200
	}
	for range rounds {
		p := copyOf(t, original)
		for range 2 {
			life := time.Duration(rand.Int64N(int64(took)))
			if err := child(p.dir(), Both, childLife+"="+life.String()).Run(); err != nil {
				killed++
			}
		}
		p.run(Both)
		if d := diff(p.snapshot(), want); d != "" {
			t.Errorf("killed, then run to the end:\n%.2000s", d)
		}
		p.forget()
		if report := p.run(Both); report.Recorded != 0 || report.Delivered != 0 {
			t.Errorf("got %+v, want nothing new", report)
		}
	}
	t.Logf("killed %d of %d", killed, 2*rounds)
}

func TestManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	original := crowd(t, 120)
	clean := copyOf(t, original)
	clean.run(Both)
	p := copyOf(t, original)
	var children []*exec.Cmd
	for _, direction := range []Direction{Both, Out, In, Both} {
		cmd := child(p.dir(), direction)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("mirror: %v", err)
		}
	}
	p.run(Both)
	if d := diff(p.snapshot(), clean.snapshot()); d != "" {
		t.Errorf("several at once:\n%.2000s", d)
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	original := crowd(t, 100)
	clean := copyOf(t, original)
	clean.run(Both)
	p := copyOf(t, original)
	info, err := os.Stat(p.log.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := limitFiles(""); err != nil {
		t.Skip(err)
	}
	for _, more := range []int64{0, 100, 3000} {
		out, err := child(p.dir(), Both, childLimit+"="+fmt.Sprint(info.Size()+more)).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "bridge.jsonl") {
			t.Errorf("a log that cannot grow: got %v, %s, want an error that names it", err, out)
		}
	}
	p.run(Both)
	if d := diff(p.snapshot(), clean.snapshot()); d != "" {
		t.Errorf("after a full disk:\n%.2000s", d)
	}
}
