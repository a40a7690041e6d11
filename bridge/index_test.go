package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// numberedLog makes a log of n records to b, every third to c, indexed in several segments.
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
	_, err := l.Status(context.Background()) // seals what is left
	must(t, err)
	must(t, l.Close())
	if len(segmentFiles(t, path)) == 0 {
		t.Fatal("no segments")
	}
	return path, sent
}

func segmentFiles(t testing.TB, path string) []string {
	t.Helper()
	files, err := filepath.Glob(path + ".index/*" + segmentSuffix)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// checkLog compares what the package says about a log with the log itself: that each record is drained and
// counted, and that a sample of them, evenly spread, is found and not sent again.
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
	wantContents(t, l.Drain(ctx, "b", nil), toB...)
	wantContents(t, l.Drain(ctx, "c", nil), toC...)
	status, err := l.Status(ctx)
	if err != nil || status.TotalMessages != len(records) {
		t.Errorf("want %d records, got %+v, %v", len(records), status, err)
	}
	var sample []Record
	for i := 0; i < len(records); i += 1 + len(records)/150 {
		sample = append(sample, records[i])
		e, err := l.Get(ctx, records[i].ID)
		if err != nil || e.Content != records[i].Content || e.Line != i+1 {
			t.Fatalf("want record %d, got %+v, %v", i+1, e, err)
		}
	}
	before := readFile(t, l.Path())
	for _, receipt := range mustSend(t, l, sample...) {
		if !receipt.Duplicate {
			t.Fatalf("%s was sent again", receipt.Content)
		}
	}
	if readFile(t, l.Path()) != before {
		t.Error("sending duplicates changed the log")
	}
}

func TestIndexServesAFreshProcess(t *testing.T) {
	path, _ := numberedLog(t, 1000)
	l := openLog(t, path, nil)
	if _, err := l.Status(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := l.tail.len(); n >= 200 {
		t.Errorf("want a short tail, got %d lines", n)
	}
	checkLog(t, l)
	if n := len(segmentFiles(t, path)); n > 6 {
		t.Errorf("want few segments, got %d", n)
	}
}

// TestUselessIndex: whatever stands beside the log, the answers are those of the log.
func TestUselessIndex(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, path string)
	}{
		{"lost", func(t *testing.T, path string) { must(t, os.RemoveAll(path+".index")) }},
		{"newest segment lost", func(t *testing.T, path string) {
			files := segmentFiles(t, path)
			must(t, os.Remove(files[len(files)-1]))
		}},
		{"oldest segment lost", func(t *testing.T, path string) { must(t, os.Remove(segmentFiles(t, path)[0])) }},
		{"empty segments", func(t *testing.T, path string) {
			for _, file := range segmentFiles(t, path) {
				must(t, os.Truncate(file, 0))
			}
		}},
		{"half a segment", func(t *testing.T, path string) { must(t, os.Truncate(segmentFiles(t, path)[0], 1024)) }},
		{"zeros after a power loss", func(t *testing.T, path string) {
			for _, file := range segmentFiles(t, path) {
				info, err := os.Stat(file)
				must(t, err)
				writeFile(t, file, strings.Repeat("\x00", int(info.Size())))
			}
		}},
		{"blocks of zeros", func(t *testing.T, path string) {
			for _, file := range segmentFiles(t, path) {
				text := []byte(readFile(t, file))
				copy(text[:len(text)/2], bytes.Repeat([]byte{0}, len(text)/2))
				writeFile(t, file, string(text))
			}
		}},
		{"blocks at each other's place", func(t *testing.T, path string) {
			file := segmentFiles(t, path)[0]
			text := readFile(t, file)
			writeFile(t, file, text[blockSize:2*blockSize]+text[:blockSize]+text[2*blockSize:])
		}},
		{"wrong names", func(t *testing.T, path string) {
			file := segmentFiles(t, path)[0]
			must(t, os.Rename(file, filepath.Join(path+".index", segmentName(0, 77))))
		}},
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
		{"the log copied over", func(t *testing.T, path string) {
			other, _ := numberedLog(t, 700)
			writeFile(t, path, strings.ReplaceAll(readFile(t, other), `"claude"`, `"CLAUDE"`))
		}},
		{"the log edited, same length", func(t *testing.T, path string) {
			writeFile(t, path, strings.ReplaceAll(readFile(t, path), `"to":"b"`, `"to":"c"`))
		}},
		{"the log cut", func(t *testing.T, path string) {
			text := readFile(t, path)
			must(t, os.Truncate(path, int64(strings.LastIndex(text[:len(text)/2], "\n")+1)))
		}},
		{"the log emptied", func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }},
		{"left-over files", func(t *testing.T, path string) {
			writeFile(t, filepath.Join(path+".index", "123.tmp"), "half")
			writeFile(t, filepath.Join(path+".index", segmentName(5, 9)), "half")
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
			for range 2 { // the second finds what the first mended
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

// A process that knows a log only from its index notices when the log is written anew in the same file.
func TestRewrittenLogOfAnIdleProcess(t *testing.T) {
	ctx := context.Background()
	path, _ := numberedLog(t, 200)
	var warnings []error
	l := openLog(t, path, quiet(&warnings))
	status, err := l.Status(ctx)
	must(t, err)
	if l.tail.len() != 0 || status.TotalMessages != 200 {
		t.Fatalf("want 200 records and none read, got %+v", status)
	}
	other, _ := numberedLog(t, 300)
	writeFile(t, path, strings.ReplaceAll(readFile(t, other), `"from":"a"`, `"from":"z"`))
	checkLog(t, l)
}

// TestDamagedIndex flips bytes all over the index. Each flip is found out when what it concerns is used.
func TestDamagedIndex(t *testing.T) {
	path, _ := numberedLog(t, 400)
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		files := segmentFiles(t, path)
		if len(files) == 0 {
			t.Fatal("the index was not made again")
		}
		file := files[random.IntN(len(files))]
		text := []byte(readFile(t, file))
		text[random.IntN(len(text))] ^= byte(1 + random.IntN(255))
		writeFile(t, file, string(text))
		var warnings []error
		l := openLog(t, path, quiet(&warnings))
		checkLog(t, l)
		must(t, l.Close())
	}
}

func TestDamageIsReported(t *testing.T) {
	path, _ := numberedLog(t, 400)
	file := segmentFiles(t, path)[0]
	text := []byte(readFile(t, file))
	text[3] ^= 1
	writeFile(t, file, string(text))
	var warnings []error
	checkLog(t, openLog(t, path, quiet(&warnings)))
	if !slices.ContainsFunc(warnings, func(err error) bool { return errors.Is(err, errDamaged) }) {
		t.Errorf("want a warning about the damage, got %v", warnings)
	}
}

// TestTwoHandles: what one handle merges and deletes, the other goes on using.
func TestTwoHandles(t *testing.T) {
	path := logPath(t)
	a, b := openLog(t, path, nil), openLog(t, path, nil)
	for i := range 600 {
		mustSend(t, []*Log{a, b}[i/37%2], task("a", "b", fmt.Sprint(i)))
	}
	checkLog(t, a)
	checkLog(t, b)
}

// TestMergeDuringAnIteration: an iteration goes on over segments that are merged and deleted meanwhile.
func TestMergeDuringAnIteration(t *testing.T) {
	path, sent := numberedLog(t, 1000)
	l := openLog(t, path, nil)
	want, i := len(sent)-(len(sent)+2)/3, 0
	for e, err := range l.Drain(context.Background(), "b", nil) {
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

// TestForeignWriter appends as a program that knows neither lock nor index.
func TestForeignWriter(t *testing.T) {
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

// TestPartRange compares the search in a segment with a plain one, for even and uneven values.
func TestPartRange(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for name, value := range map[string]func(i int) uint64{
		"even":     func(int) uint64 { return random.Uint64() },
		"small":    func(i int) uint64 { return uint64(i / 3) },
		"one":      func(int) uint64 { return 42 },
		"extremes": func(i int) uint64 { return uint64(-(i % 2)) },
	} {
		t.Run(name, func(t *testing.T) {
			content := newTail()
			for i := range 1000 {
				content.cells = append(content.cells, cell{value(i), int64(i), int64(i)})
			}
			path := filepath.Join(t.TempDir(), "segment")
			must(t, writeSegment(path, footer{}, nil, content, newCounts()))
			file, err := openShared(path)
			must(t, err)
			defer func() { must(t, file.release()) }()
			s := &segment{file: file, footer: footer{Records: 1000}}
			sorted := content.sorted()
			for i := range 3000 {
				target := random.Uint64()
				if i < 1000 {
					target = sorted[i].key + uint64(i%3) - 1
				}
				var want []cell
				for _, c := range sorted {
					if c.key == target {
						want = append(want, c)
					}
				}
				if got, err := s.find(target); err != nil || !slices.Equal(got, want) {
					t.Fatalf("key %d: want %v, got %v, %v", target, want, got, err)
				}
			}
		})
	}
}
