package search_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/oacp-go/oacp/mailbox"
	"github.com/oacp-go/oacp/search"
)

// BenchmarkIndex builds an index of OACP_SEARCH_MESSAGES messages, 10,000 without, updates it unchanged, and searches.
func BenchmarkIndex(b *testing.B) {
	count := 10_000
	if n, err := strconv.Atoi(os.Getenv("OACP_SEARCH_MESSAGES")); err == nil {
		count = n
	}
	w := newWorkspace(b)
	r := rand.New(rand.NewPCG(1, 2))
	var words []string
	for range 20_000 {
		word := make([]byte, 3+r.IntN(7))
		for i := range word {
			word[i] = "eeetttaaooiinnsshhrrddlcumwfgypbvk"[r.IntN(34)]
		}
		words = append(words, string(word))
	}
	zipf := rand.NewZipf(r, 1.1, 8, uint64(len(words)-1))
	for i := range count {
		body := fmt.Sprint("number ", i)
		for range 80 {
			body += " " + words[zipf.Uint64()]
		}
		m := &message{name: fmt.Sprintf("%016x", i), from: "codex", to: "claude", typ: "notification", subject: "Message", body: body, at: start.Add(time.Duration(i) * 7 * time.Second)}
		if i%1000 == 0 {
			m.from = "anna"
		}
		for _, path := range []string{w.BoxPath("codex", mailbox.Outbox), w.BoxPath("claude", mailbox.Archive)} {
			if err := os.WriteFile(filepath.Join(path, m.file()), []byte(m.bytes()), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	settledAt := time.Now().Add(-time.Minute)
	for _, path := range []string{w.BoxPath("codex", mailbox.Outbox), w.BoxPath("claude", mailbox.Archive)} {
		if err := os.Chtimes(path, settledAt, settledAt); err != nil {
			b.Fatal(err)
		}
	}
	x := open(b, w)
	began := time.Now()
	update(b, x)
	info, err := os.Stat(filepath.Join(w.Dir(), filepath.FromSlash(search.Folder), "v3.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("built in %v, %d MB", time.Since(began).Round(time.Millisecond), info.Size()>>20)
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			update(b, x)
		}
	})
	for name, q := range map[string]search.Query{
		"rare": {Terms: words[19990:19991]}, "common": {Terms: words[:1]}, "number": {Terms: []string{"number 77 "}}, "two": {Terms: words[3:5]},
		"phrase": {Terms: []string{words[0] + " " + words[1]}}, "absent": {Terms: []string{words[0] + " " + words[2] + " " + words[1] + " " + words[3] + " " + words[0]}},
		"16 words": {Terms: words[100:116]}, "rare sender and common": {Terms: words[:1], From: "anna"}, "no such sender": {Terms: words[:1], From: "x"},
		"short": {Terms: []string{"e"}}, "short rare": {Terms: []string{"zq"}}, "short and rare": {Terms: []string{"kv", words[19990]}}, "all": {}, "dead": {Is: search.Dead, Terms: words[:1]},
		"a day": {Terms: words[:1], After: start, Before: start.Add(24 * time.Hour)},
	} {
		b.Run(name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				t := time.Now()
				if _, err := x.Search(b.Context(), q, search.Page{}); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(t))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
