package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

var errFault = errors.New("injected fault")

// faultyFile fails on demand: the first write after only some bytes, or the next sync.
type faultyFile struct {
	appendFile
	write int // bytes that still get written before a write fails; negative: no fault
	sync  bool
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if f.write < 0 {
		return f.appendFile.Write(p)
	}
	n, err := f.appendFile.Write(p[:min(f.write, len(p))])
	f.write = -1
	return n, errors.Join(errFault, syscall.ENOSPC, err)
}

func (f *faultyFile) Sync() error {
	if f.sync {
		f.sync = false
		return errFault
	}
	return f.appendFile.Sync()
}

// withFaults makes a log whose next append meets a fault.
func withFaults(t *testing.T, path string, warnings *[]error) (*Log, *faultyFile) {
	t.Helper()
	faulty := &faultyFile{write: -1}
	l := openLog(t, path, &Options{Warn: func(err error) { *warnings = append(*warnings, err) }})
	l.open = func(path string) (appendFile, error) {
		var err error
		faulty.appendFile, err = openAppend(path)
		return faulty, err
	}
	return l, faulty
}

// TestFullDisk checks that a write that fails after any number of bytes leaves nothing of the
// record, and that the next append, by this process or another, succeeds.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	line, err := task("a", "b", "2").Encode()
	must(t, err)
	for written := 0; written <= len(line)+64; written += 9 { // encoded without its id of 64 digits
		path := logPath(t)
		var warnings []error
		l, faulty := withFaults(t, path, &warnings)
		mustSend(t, l, task("a", "b", "1"))
		before := mustRead(t, path)
		faulty.write = written
		if _, err := l.Send(ctx, task("a", "b", "2")); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
			t.Fatalf("want ENOSPC and the path, got %v", err)
		}
		if got := mustRead(t, path); got != before {
			t.Fatalf("after %d bytes: want the log as it was, got %q", written, got)
		}
		wantContents(t, l.Drain(ctx, "b", ""), "1")
		if receipt := mustSend(t, l, task("a", "b", "2"))[0]; receipt.Duplicate || receipt.Line != 2 {
			t.Fatalf("want a new record on line 2, got %+v", receipt)
		}
		for _, log := range []*Log{l, openLog(t, path, nil)} {
			wantContents(t, log.Drain(ctx, "b", ""), "1", "2")
		}
		if len(warnings) != 0 {
			t.Errorf("want no warnings, got %v", warnings)
		}
	}
}

// TestFullDiskInABatch checks that whole lines that were written stay and have receipts, and that
// the others have none.
func TestFullDiskInABatch(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var batch []Record
	for i := range 5 {
		batch = append(batch, task("a", "b", fmt.Sprint(i)))
	}
	batch = append(batch[:2:2], append([]Record{batch[0]}, batch[2:]...)...) // with a duplicate
	for written := 0; written < 1000; written += 50 {
		path := logPath(t)
		var warnings []error
		l, faulty := withFaults(t, path, &warnings)
		mustSend(t, l, task("a", "b", "before"))
		faulty.write = written
		receipts, err := l.SendAll(ctx, batch)
		if !errors.Is(err, errFault) {
			t.Fatalf("want the fault, got %v", err)
		}
		fresh := 0
		for i, r := range receipts {
			if r.Content != batch[i].Content || r.Line == 0 {
				t.Errorf("receipt %d: want %s, got %+v", i, batch[i].Content, r)
			}
			if !r.Duplicate {
				fresh++
			}
		}
		if got := contents(t, openLog(t, path, nil).Drain(ctx, "b", "")); len(got) != 1+fresh {
			t.Fatalf("want %d records, got %q", 1+fresh, got)
		}
		if strings.Count(mustRead(t, path), "\n") != 1+fresh {
			t.Fatalf("want whole lines only, got %q", mustRead(t, path))
		}
		mustSend(t, l, batch...)
		wantContents(t, l.Drain(ctx, "b", ""), "before", "0", "1", "2", "3", "4")
	}
}

// A foreign record after the rest of a failed write is not cut off with it.
func TestFullDiskBesideAForeignWriter(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	var warnings []error
	l, faulty := withFaults(t, path, &warnings)
	mustSend(t, l, task("a", "b", "1"))
	l.open = nil
	l.writer = &foreignBehind{faulty, path}
	faulty.write = 20
	if _, err := l.Send(context.Background(), task("a", "b", "2")); !errors.Is(err, errFault) {
		t.Fatalf("want the fault, got %v", err)
	}
	if got := mustRead(t, path); !strings.HasSuffix(got, "foreign\n") {
		t.Errorf("want the foreign line kept, got %q", got)
	}
	l.writer = faulty
	mustSend(t, l, task("a", "b", "2"))
	wantContents(t, l.Drain(context.Background(), "b", ""), "1", "2")
}

// foreignBehind lets another writer append behind every failed write.
type foreignBehind struct {
	*faultyFile
	path string
}

func (f *foreignBehind) Write(p []byte) (int, error) {
	n, err := f.faultyFile.Write(p)
	if err == nil {
		return n, nil
	}
	other, failed := openAppend(f.path)
	if failed != nil {
		return n, errors.Join(err, failed)
	}
	_, failed = other.Write([]byte("foreign\n"))
	return n, errors.Join(err, failed, other.Close())
}

func TestFailedSync(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	var warnings []error
	l, faulty := withFaults(t, path, &warnings)
	mustSend(t, l, task("a", "b", "1"))
	for _, content := range []string{"2", "2"} { // a duplicate is not called durable either
		faulty.sync = true
		receipt, err := l.Send(context.Background(), task("a", "b", content))
		if !errors.Is(err, ErrNotSynced) || !errors.Is(err, errFault) || receipt.Line != 2 {
			t.Errorf("want ErrNotSynced about line 2, got %+v, %v", receipt, err)
		}
	}
	if !mustSend(t, l, task("a", "b", "2"))[0].Duplicate {
		t.Error("want a duplicate")
	}
	wantContents(t, l.Drain(context.Background(), "b", ""), "1", "2")
}

// TestFolderSync checks that a new log's name is synced with it, once, and that a failure is
// reported and repeated.
func TestFolderSync(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := openLog(t, path, &Options{})
	var synced []string
	l.syncFolder = func(folder string) error {
		synced = append(synced, folder)
		if len(synced) == 1 {
			return errFault
		}
		return nil
	}
	if _, err := l.Send(t.Context(), task("a", "b", "1")); !errors.Is(err, errFault) {
		t.Errorf("Send = %v, want the fault", err)
	}
	mustSend(t, l, task("a", "b", "1"), task("a", "b", "2"))
	mustSend(t, l, task("a", "b", "3"))
	folder := filepath.Dir(l.Path())
	if want := []string{folder, folder}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	wantContents(t, l.Drain(t.Context(), "b", ""), "1", "2", "3")
	quick := openLog(t, path, &Options{NoSync: true})
	quick.syncFolder = func(string) error { return errFault }
	mustSend(t, quick, task("a", "b", "4"))
}

// An index that cannot be written is reported, and everything else still works.
func TestIndexThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	writeFile(t, path+".index", "not a folder")
	var warnings []error
	l := openLog(t, path, quiet(&warnings))
	for i := range 500 {
		mustSend(t, l, task("a", "b", fmt.Sprint(i)))
	}
	checkLog(t, l)
	if n := len(warnings); n == 0 || n > 10 {
		t.Errorf("want a few warnings, got %d: %v", n, warnings)
	}
	must(t, os.Remove(path+".index"))
	fresh := openLog(t, path, nil)
	checkLog(t, fresh)
	if len(partFiles(t, path)) == 0 {
		t.Error("want an index now")
	}
}
