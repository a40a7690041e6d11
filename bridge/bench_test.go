package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sizes are the numbers of records already in the log. BRIDGE_BENCH_LARGE=1 adds the long ones.
func sizes() []int {
	if os.Getenv("BRIDGE_BENCH_LARGE") != "" {
		return []int{0, 1_000, 10_000, 100_000, 1_000_000}
	}
	return []int{0, 1_000, 10_000}
}

var filler = strings.Repeat("All requirements met, the validation works. ", 4)

func numbered(i int) Record { return task("claude", "codex", fmt.Sprint(filler, i)) }

// longLog writes a log of n records, without an index.
func longLog(b *testing.B, n int) string {
	b.Helper()
	path := logPath(b)
	if n == 0 {
		return path
	}
	var text []byte
	for i := range n {
		r := numbered(i)
		if i%2 == 1 {
			r.From, r.To = r.To, r.From
		}
		r.ID, r.RunID = GenerateID(r.Type, r.From, r.To, r.Content), 1
		line, err := r.Encode()
		if err != nil {
			b.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	file, err := openAppend(path)
	if err != nil {
		b.Fatal(err)
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		b.Fatal(err)
	}
	return path
}

// indexed opens the log once, which indexes it.
func indexed(b *testing.B, path string) string {
	b.Helper()
	l := openLog(b, path, nil)
	if _, err := l.Status(context.Background()); err != nil {
		b.Fatal(err)
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// syncIndex waits for the index to reach the disk, so that the next measurement does not include
// this.
func syncIndex(b *testing.B, path string) {
	b.Helper()
	segments, err := filepath.Glob(path + ".index/*")
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range segments {
		file, err := os.Open(s)
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	ctx := context.Background()
	r := numbered(0)
	r.ID, r.RunID = GenerateID(r.Type, r.From, r.To, r.Content), 1
	line, err := r.Encode()
	if err != nil {
		b.Fatal(err)
	}
	line = append(line, '\n')
	for _, durable := range []bool{true, false} {
		b.Run(fmt.Sprintf("bare/durable=%v", durable), func(b *testing.B) {
			file, err := openAppend(logPath(b))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				_, err := file.Write(line)
				if durable {
					err = errors.Join(err, file.Sync())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			if err := file.Close(); err != nil {
				b.Fatal(err)
			}
		})
		b.Run(fmt.Sprintf("send/durable=%v", durable), func(b *testing.B) {
			l := openLog(b, logPath(b), &Options{NoSync: !durable})
			i := 0
			for b.Loop() {
				i++
				if _, err := l.Send(ctx, numbered(i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("batch of 1000/durable=true", func(b *testing.B) {
		l := openLog(b, logPath(b), &Options{})
		n := 0
		for b.Loop() {
			batch := make([]Record, 1000)
			for i := range batch {
				n++
				batch[i] = numbered(n)
			}
			if _, err := l.SendAll(ctx, batch); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/record")
	})
}

// BenchmarkFlat runs each call on logs of growing length: in a process that has the log open, and
// as a process that has just started (open, call, close).
func BenchmarkFlat(b *testing.B) {
	ctx := context.Background()
	sent := 0
	calls := []struct {
		name string
		run  func(l *Log, end Cursor, known Record) error
	}{
		{"duplicate", func(l *Log, _ Cursor, known Record) error {
			receipt, err := l.Send(ctx, known)
			if err == nil && !receipt.Duplicate {
				err = errors.New("not a duplicate")
			}
			return err
		}},
		{"drain-since", func(l *Log, _ Cursor, known Record) error {
			since, err := get(l, known.ID)
			if err != nil {
				return err
			}
			for _, err := range l.Drain(ctx, "codex", since.Cursor()) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"drain-after", func(l *Log, end Cursor, _ Record) error {
			for _, err := range l.Drain(ctx, "codex", end) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"status", func(l *Log, _ Cursor, _ Record) error { _, err := l.Status(ctx); return err }},
		{"find", func(l *Log, _ Cursor, _ Record) error { _, err := l.Find(ctx, "0123456789abcdef"); return err }},
		{"send", func(l *Log, _ Cursor, _ Record) error {
			sent++
			_, err := l.Send(ctx, task("claude", "codex", fmt.Sprint("new ", sent)))
			return err
		}},
	}
	for _, n := range sizes() {
		path := longLog(b, n)
		if n > 0 {
			indexed(b, path)
			syncIndex(b, path)
		}
		var known Record
		l := openLog(b, path, &Options{})
		receipt, err := l.Send(ctx, task("codex", "claude", "known"))
		if err != nil {
			b.Fatal(err)
		}
		known = receipt.Record
		end, err := l.End(ctx)
		if err != nil {
			b.Fatal(err)
		}
		for _, call := range calls {
			for _, durable := range []bool{true, false} {
				if !durable && call.name != "send" && call.name != "duplicate" {
					continue
				}
				options := &Options{NoSync: !durable}
				open := openLog(b, path, options)
				b.Run(fmt.Sprintf("%s/durable=%v/open/%d", call.name, durable, n), func(b *testing.B) {
					for b.Loop() {
						if err := call.run(open, end, known); err != nil {
							b.Fatal(err)
						}
					}
				})
				b.Run(fmt.Sprintf("%s/durable=%v/fresh/%d", call.name, durable, n), func(b *testing.B) {
					for b.Loop() {
						l, err := Open(path, options)
						if err != nil {
							b.Fatal(err)
						}
						if err := errors.Join(call.run(l, end, known), l.Close()); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkOpen measures the first call on a log, with its index and without.
func BenchmarkOpen(b *testing.B) {
	for _, n := range sizes()[1:] {
		path := indexed(b, longLog(b, n))
		for _, with := range []bool{true, false} {
			b.Run(fmt.Sprintf("index=%v/%d", with, n), func(b *testing.B) {
				for b.Loop() {
					if !with {
						b.StopTimer()
						if err := os.RemoveAll(path + ".index"); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
					indexed(b, path)
				}
			})
		}
		size := int64(0)
		segments, err := filepath.Glob(path + ".index/*")
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range segments {
			if info, err := os.Stat(s); err == nil {
				size += info.Size()
			}
		}
		b.Logf("%d records: index of %d bytes in %d segments", n, size, len(segments))
	}
}

// BenchmarkDrainAll reads every record of a log, for one agent and for all.
func BenchmarkDrainAll(b *testing.B) {
	ctx := context.Background()
	path := indexed(b, longLog(b, 10_000))
	l := openLog(b, path, nil)
	b.Run("agent", func(b *testing.B) {
		for b.Loop() {
			for _, err := range l.Drain(ctx, "codex", "") {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("records", func(b *testing.B) {
		for b.Loop() {
			for _, err := range l.Records(ctx, "") {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
