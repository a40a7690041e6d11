package bridge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// numberedLog makes a log of n records to b, every third to c, indexed in several parts.
func numberedLog(t testing.TB, n int) (path string, sent []Record) {
	t.Helper()
	path = logPath(t)
	l := openLog(t, path, nil)
	for i := range n {
		r := task("a", "b", fmt.Sprintf("%05d", i))
		if i%3 == 0 {
			r.To = "c"
		}
		sent = append(sent, r)
	}
	for part := range slices.Chunk(sent, 100) {
		mustSend(t, l, part...)
	}
	must(t, l.Close())
	if len(partFiles(t, path)) == 0 {
		t.Fatal("no parts")
	}
	return path, sent
}

func partFiles(t testing.TB, path string) []string {
	t.Helper()
	files, err := filepath.Glob(path + ".index/*" + partSuffix)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func indexFilePath(path string) string { return filepath.Join(path+".index", indexFileName) }

// checkLog compares what the package says about a log with the log itself: that each record is
// drained and counted, and that an evenly spread sample of them is found and not sent again.
func checkLog(t *testing.T, l *Log) {
	t.Helper()
	ctx := context.Background()
	records := everyRecord(t, l.Path())
	var toB, toC []string
	for _, r := range records {
		switch r.To {
		case "b":
			toB = append(toB, r.Content)
		case "c":
			toC = append(toC, r.Content)
		}
	}
	wantContents(t, l.Drain(ctx, "b", ""), toB...)
	wantContents(t, l.Drain(ctx, "c", ""), toC...)
	status, err := l.Status(ctx)
	if err != nil || status.TotalMessages != len(records) {
		t.Errorf("want %d records, got %+v, %v", len(records), status, err)
	}
	lines := strings.Split(mustRead(t, l.Path()), "\n") // a process that is killed may leave one that is no record
	var sample []Record
	for i := 0; i < len(records); i += 1 + len(records)/150 {
		sample = append(sample, records[i])
		e, err := get(l, records[i].ID)
		if err != nil || e.Content != records[i].Content || e.Line <= i || e.Line > len(lines) || !strings.Contains(lines[e.Line-1], e.ID) {
			t.Fatalf("want record %d, got %+v, %v", i+1, e, err)
		}
	}
	before := mustRead(t, l.Path())
	for _, receipt := range mustSend(t, l, sample...) {
		if !receipt.Duplicate {
			t.Fatalf("%s was sent again", receipt.Content)
		}
	}
	if mustRead(t, l.Path()) != before {
		t.Error("sending duplicates changed the log")
	}
}

func TestIndexServesAFreshProcess(t *testing.T) {
	t.Parallel()
	path, _ := numberedLog(t, 1000)
	l := openLog(t, path, nil)
	if _, err := l.Status(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := l.read.Lines - l.index.Lines; n >= 200 {
		t.Errorf("want a short tail, got %d lines", n)
	}
	checkLog(t, l)
	if n := len(partFiles(t, path)); n > 6 {
		t.Errorf("want few parts, got %d", n)
	}
}

// TestUselessIndex checks that the answers are those of the log, whatever the index holds.
func TestUselessIndex(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, path string)
	}{
		{"lost", func(t *testing.T, path string) { must(t, os.RemoveAll(path+".index")) }},
		{"index.json lost", func(t *testing.T, path string) { must(t, os.Remove(indexFilePath(path))) }},
		{"half of index.json", func(t *testing.T, path string) { must(t, os.Truncate(indexFilePath(path), 100)) }},
		{"a folder in place of index.json", func(t *testing.T, path string) {
			must(t, os.Remove(indexFilePath(path)))
			must(t, os.Mkdir(indexFilePath(path), 0o700))
			must(t, os.Mkdir(filepath.Join(indexFilePath(path), "x"), 0o700))
		}},
		{"a part lost", func(t *testing.T, path string) { must(t, os.Remove(partFiles(t, path)[0])) }},
		{"all parts lost", func(t *testing.T, path string) {
			for _, file := range partFiles(t, path) {
				must(t, os.Remove(file))
			}
		}},
		{"empty parts", func(t *testing.T, path string) {
			for _, file := range partFiles(t, path) {
				must(t, os.Truncate(file, 0))
			}
		}},
		{"half a part", func(t *testing.T, path string) { must(t, os.Truncate(partFiles(t, path)[0], 1024)) }},
		{"a file in its place", func(t *testing.T, path string) {
			must(t, os.RemoveAll(path+".index"))
			writeFile(t, path+".index", "not a folder")
		}},
		{"another log's", func(t *testing.T, path string) {
			other, _ := numberedLog(t, 600)
			must(t, os.RemoveAll(path+".index"))
			must(t, os.Rename(other+".index", path+".index"))
		}},
		{"the log replaced", func(t *testing.T, path string) {
			other, _ := numberedLog(t, 700)
			must(t, os.Rename(other, path))
		}},
		{"the log edited, same length", func(t *testing.T, path string) {
			writeFile(t, path, strings.ReplaceAll(mustRead(t, path), `"to":"b"`, `"to":"c"`))
		}},
		{"the log cut", func(t *testing.T, path string) {
			text := mustRead(t, path)
			must(t, os.Truncate(path, int64(strings.LastIndex(text[:len(text)/2], "\n")+1)))
		}},
		{"the log emptied", func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }},
		{"left-over files", func(t *testing.T, path string) {
			writeFile(t, filepath.Join(path+".index", "123.part"), "half")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, _ := numberedLog(t, 500)
			var warnings []error
			running := openLog(t, path, quiet(&warnings)) // a process that has read it before
			_, err := running.Status(context.Background())
			must(t, err)
			test.spoil(t, path)
			checkLog(t, running)
			for range 2 { // the second finds what the first repaired
				fresh := openLog(t, path, quiet(&warnings))
				checkLog(t, fresh)
				must(t, fresh.Close())
			}
			mustSend(t, running, task("a", "b", "next"))
			checkLog(t, running)
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTwoHandles checks that a handle can still use segments that another one merges and deletes.
func TestTwoHandles(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	a, b := openLog(t, path, nil), openLog(t, path, nil)
	for i := range 600 {
		mustSend(t, []*Log{a, b}[i/37%2], task("a", "b", fmt.Sprint(i)))
	}
	checkLog(t, a)
	checkLog(t, b)
}

// TestMergeDuringAnIteration checks that an iteration continues over parts that are merged and
// deleted meanwhile.
func TestMergeDuringAnIteration(t *testing.T) {
	t.Parallel()
	path, sent := numberedLog(t, 1000)
	l := openLog(t, path, nil)
	want, i := len(sent)-(len(sent)+2)/3, 0
	for e, err := range l.Drain(context.Background(), "b", "") {
		must(t, err)
		if i++; i%50 == 0 {
			for j := range 100 {
				mustSend(t, l, task("a", "c", fmt.Sprint(e.Content, " ", j)))
			}
		}
	}
	if i != want {
		t.Errorf("want %d records, got %d", want, i)
	}
	checkLog(t, l)
}

// TestForeignWriter appends like a program that uses neither lock nor index.
func TestForeignWriter(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	l := openLog(t, path, nil)
	foreign, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(t, err)
	for i := range 300 {
		_, err := fmt.Fprintf(foreign, `{"id":"foreign-%d","type":"task","from":"x","to":"b","content":"f%d","timestamp":"now","run_id":1}`+"\n", i, i)
		must(t, err)
		mustSend(t, l, task("a", "b", fmt.Sprint(i)))
	}
	must(t, foreign.Close())
	checkLog(t, l)
	checkLog(t, openLog(t, path, nil))
}

// TestPart compares look-ups in a part with a plain search, for even and uneven keys.
func TestPart(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for name, value := range map[string]func(i int) uint64{
		"even":     func(int) uint64 { return random.Uint64() },
		"small":    func(i int) uint64 { return uint64(i / 3) },
		"large":    func(i int) uint64 { return ^uint64(0) - uint64(i/3) },
		"one":      func(int) uint64 { return 42 },
		"extremes": func(i int) uint64 { return uint64(-(i % 2)) },
	} {
		for _, n := range []int{0, 1, 2, 22, 1000} {
			var sorted []cell
			for i := range n {
				sorted = append(sorted, cell{value(i), int64(i), int64(i) + 1})
			}
			slices.SortFunc(sorted, byKey)
			folder := t.TempDir()
			info, err := writePart(folder, sorted)
			must(t, err)
			p := &part{partInfo: info, folder: folder}
			all, err := p.cells(0, n)
			if err != nil || !slices.Equal(all, sorted) {
				t.Errorf("%d %s keys: all gives %d cells, %v", n, name, len(all), err)
			}
			for i := range 3 * n {
				target := random.Uint64()
				if i < n {
					target = sorted[i].key + uint64(i%3) - 1
				}
				var want []cell
				for _, c := range sorted {
					if c.key == target {
						want = append(want, c)
					}
				}
				if got, err := p.find(target); err != nil || !slices.Equal(got, want) {
					t.Fatalf("%d %s keys: key %d gives %v, %v, want %v", n, name, target, got, err, want)
				}
			}
			must(t, p.close())
		}
	}
}

// TestPartsMergedBeforeTheirFirstUse checks that a process that knows the index but has not opened
// its parts yet finds records after another process has merged these parts.
func TestPartsMergedBeforeTheirFirstUse(t *testing.T) {
	t.Parallel()
	path, sent := numberedLog(t, 1000)
	idle := openLog(t, path, nil)
	_, err := idle.Status(t.Context())
	must(t, err)
	before := partFiles(t, path)
	other := openLog(t, path, nil)
	for i := range 20 {
		var batch []Record
		for j := range 200 {
			batch = append(batch, task("a", "b", fmt.Sprint("other ", i, " ", j)))
		}
		mustSend(t, other, batch...)
	}
	for _, file := range before {
		if slices.Contains(partFiles(t, path), file) {
			t.Fatalf("%s was not merged", file)
		}
	}
	id := GenerateID(sent[0].Type, sent[0].From, sent[0].To, sent[0].Content)
	if e, err := idle.lookup(t.Context(), id, false); err != nil || len(e) != 1 || e[0].Line != 1 {
		t.Errorf("got %+v, %v, want line 1", e, err)
	}
	checkLog(t, idle)
}
