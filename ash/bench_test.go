package ash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
)

// BenchmarkRoundTrip measures a query with one small message and its done, over a real socket.
func BenchmarkRoundTrip(b *testing.B) {
	client := connect(b, serve(b, turns(echo)))
	b.ReportAllocs()
	for b.Loop() {
		if messages, err := query(client, "hello"); err != nil || len(messages) != 1 {
			b.Fatalf("got %q, error %v", messages, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "trips/s")
}

// BenchmarkMessages measures the stream from bridge to host, message after message within one
// query.
func BenchmarkMessages(b *testing.B) {
	for _, size := range []int{200, 10 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%d", size), func(b *testing.B) {
			data := assistantMessage(size)
			path := serve(b, turns(func(ctx context.Context, _ command, send Send) error {
				for ctx.Err() == nil {
					if err := send(data); err != nil {
						return err
					}
				}
				return context.Cause(ctx)
			}))
			client := connect(b, path)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			next, stop := iterate(client)
			for b.Loop() {
				if err := next(); err != nil {
					b.Fatal(err)
				}
			}
			stop()
		})
	}
}

// assistantMessage returns a message of about size bytes: prose with some escapes, as agents write
// it.
func assistantMessage(size int) json.RawMessage {
	const prose = `The function \"parse\" returns early when the input is empty.\nSee line 42 of the file, naïve as it is. `
	return json.RawMessage(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"` +
		strings.Repeat(prose, size/len(prose)+1) + `"}],"usage":{"output_tokens":12}}}`)
}

// BenchmarkDecodeEvent measures reading one line that carries 1 MiB.
func BenchmarkDecodeEvent(b *testing.B) {
	line, err := event{name: "message", data: assistantMessage(1 << 20)}.encode()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if _, err := decodeEvent(line); err != nil {
			b.Fatal(err)
		}
	}
}

// iterate pulls the messages of one endless query.
func iterate(client *Client) (next func() error, stop func()) {
	pull, stop := iter.Pull2(client.Query(context.Background(), Query{SessionID: "s1"}))
	return func() error {
		_, err, ok := pull()
		if !ok {
			return errors.New("the query ended")
		}
		return err
	}, stop
}
