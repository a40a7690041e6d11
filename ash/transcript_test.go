package ash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// A transcript is a recorded conversation: prose, and then sections of lines, alternately the
// bridge's and the host's. Those in testdata/transcripts/both test both ends of this package; those
// in bridge and host test that end only, against a peer that behaves as this package's other end
// never does.
type section struct {
	fromHost bool
	lines    []string
}

func readTranscript(name string, archive *txtar.Archive) ([]section, error) {
	if len(archive.Comment) == 0 {
		return nil, fmt.Errorf("%s: no prose", name)
	}
	var sections []section
	for i, file := range archive.Files {
		fromHost := file.Name == "host"
		switch {
		case !fromHost && file.Name != "bridge":
			return nil, fmt.Errorf("%s: unknown section %q", name, file.Name)
		case fromHost != (i%2 == 1):
			return nil, fmt.Errorf("%s: section %d: the bridge must begin and the two must take turns", name, i+1)
		case len(file.Data) == 0:
			return nil, fmt.Errorf("%s: section %d is empty", name, i+1)
		}
		lines := strings.Split(strings.TrimSuffix(string(file.Data), "\n"), "\n")
		sections = append(sections, section{fromHost: fromHost, lines: lines})
	}
	if len(sections) < 2 {
		return nil, fmt.Errorf("%s: nothing happens", name)
	}
	return sections, nil
}

// replay runs a test on every transcript of the folders.
func replay(t *testing.T, test func(*testing.T, []section), folders ...string) {
	for _, folder := range folders {
		names, err := filepath.Glob(filepath.Join("testdata", "transcripts", folder, "*"))
		if err != nil || len(names) == 0 {
			t.Fatalf("no transcripts in %s: %v", folder, err)
		}
		for _, name := range names {
			t.Run(folder+"/"+strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
				archive, err := txtar.ParseFile(name)
				if err != nil {
					t.Fatal(err)
				}
				sections, err := readTranscript(name, archive)
				if err != nil {
					t.Fatal(err)
				}
				test(t, sections)
			})
		}
	}
}

func TestTranscriptsServer(t *testing.T) {
	replay(t, func(t *testing.T, sections []section) {
		handler := &scriptedHandler{script: handlerScript(t, sections)}
		path := socketPath(t)
		server, err := Listen(path, handler)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- server.Serve(ctx) }()
		defer func() {
			cancel()
			if err := receive(t, served, "the end of the server"); err != nil {
				t.Error(err)
			}
		}()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		host := newWire(t, conn)
		for _, section := range sections {
			for _, line := range section.lines {
				if section.fromHost {
					host.send(line + "\n")
				} else {
					host.want(line)
				}
			}
		}
		last := sections[len(sections)-1]
		if last.fromHost && strings.Contains(last.lines[0], "shutdown") {
			host.wantEnd()
			if err := receive(t, served, "the end of the server after a shutdown"); err != nil {
				t.Error(err)
			}
			served <- nil
		}
		if len(handler.script) > 0 {
			t.Errorf("turns that never ran: %v", handler.script)
		}
	}, "both", "bridge")
}

// scriptedTurn is what an agent does in one turn: some messages, and after an interrupt some more.
type scriptedTurn struct {
	before, after []string
	interrupted   bool
	err           error
}

type scriptedHandler struct{ script []scriptedTurn }

func (h *scriptedHandler) Query(ctx context.Context, _ Query, send Send) error {
	return h.next(ctx, send)
}

func (h *scriptedHandler) Resume(ctx context.Context, _ string, send Send) error {
	return h.next(ctx, send)
}

func (h *scriptedHandler) next(ctx context.Context, send Send) error {
	if len(h.script) == 0 {
		return errors.New("a turn that the transcript does not have")
	}
	turn := h.script[0]
	h.script = h.script[1:]
	for _, data := range turn.before {
		if err := send(json.RawMessage(data)); err != nil {
			return err
		}
	}
	if turn.interrupted {
		<-ctx.Done()
	}
	for _, data := range turn.after {
		if err := send(json.RawMessage(data)); err != nil {
			return err
		}
	}
	if turn.err == nil && turn.interrupted {
		return context.Cause(ctx)
	}
	return turn.err
}

// handlerScript derives from a transcript what the agent behind the bridge does in each turn. Every
// done ends a turn.
func handlerScript(t *testing.T, sections []section) []scriptedTurn {
	var script []scriptedTurn
	var turn scriptedTurn
	for _, section := range sections {
		if section.fromHost {
			turn.interrupted = turn.before != nil && slices.Contains(section.lines, `{"cmd":"interrupt"}`)
			continue
		}
		for i, line := range section.lines {
			event, err := decodeEvent([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			switch event.name {
			case "message":
				if turn.interrupted {
					turn.after = append(turn.after, string(event.data))
				} else {
					turn.before = append(turn.before, string(event.data))
				}
			case "error": // the agent's if the turn ends with it, else the server's own
				if i+1 < len(section.lines) && strings.Contains(section.lines[i+1], `"done"`) {
					turn.err = errors.New(event.text)
				}
			case "done":
				script = append(script, turn)
				turn = scriptedTurn{}
			}
		}
	}
	return script
}

func TestTranscriptsClient(t *testing.T) {
	replay(t, func(t *testing.T, sections []section) {
		path := fakeBridge(t, func(w *wire) { playBridge(w, sections) })
		client := connect(t, path)
		for i := 1; i < len(sections); i += 2 {
			for _, line := range sections[i].lines {
				command, err := decodeCommand([]byte(line))
				if err != nil {
					t.Fatal(err)
				}
				if command.name != "interrupt" { // leaving the turn sends it
					wantMessages, wantErr := turnEvents(t, sections[i+1:])
					runCommand(t, client, command, wantMessages, wantErr)
				}
			}
		}
	}, "both", "host")
}

// playBridge is the bridge of a transcript. It runs in a goroutine, so it reports failures with
// t.Errorf only.
func playBridge(w *wire, sections []section) {
	for _, section := range sections {
		for _, line := range section.lines {
			if !section.fromHost {
				if _, err := w.conn.Write([]byte(line + "\n")); err != nil {
					w.t.Errorf("the client left before %s: %v", line, err)
				}
				continue
			}
			if got, err := w.lines.ReadString('\n'); err != nil || got != line+"\n" {
				w.t.Errorf("the client sent\n got %q, error %v\nwant %q", got, err, line+"\n")
			}
		}
	}
}

// turnEvents returns what the turn that begins with these sections yields, and the text of its
// error. "interrupt" stands for an interrupt by the host, which wants no more messages.
func turnEvents(t *testing.T, sections []section) (messages []string, failure string) {
	for _, section := range sections {
		if section.fromHost {
			return append(messages, "interrupt"), failure
		}
		for _, line := range section.lines {
			if line == "" {
				continue
			}
			event, err := decodeEvent([]byte(line))
			if errors.Is(err, errUnknownName) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			switch event.name {
			case "message":
				messages = append(messages, string(event.data))
			case "error":
				if failure == "" {
					failure = event.text
				}
			case "done":
				if event.session != "s0" { // of a session that no transcript queries
					return messages, failure
				}
			}
		}
	}
	return messages, failure
}

func runCommand(t *testing.T, client *Client, command command, want []string, wantErr string) {
	t.Helper()
	ctx := context.Background()
	if command.name == "shutdown" {
		if err := client.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		return
	}
	var got []string
	var gotErr Error
	for data, err := range client.Query(ctx, command.Query) {
		if err != nil {
			if !errors.As(err, &gotErr) {
				t.Errorf("the turn of %+v: %v", command, err)
			}
			break
		}
		got = append(got, string(data))
		if len(got) < len(want) && want[len(got)] == "interrupt" {
			got = append(got, "interrupt")
			break
		}
	}
	if !slices.Equal(got, want) || gotErr.Text != wantErr {
		t.Errorf("the turn of %+v\n got %q, error %q\nwant %q, error %q", command, got, gotErr.Text, want, wantErr)
	}
}

// TestTranscriptsCoverProtocol checks that the transcripts cover every command and event of the
// protocol page.
func TestTranscriptsCoverProtocol(t *testing.T) {
	recorded := transcriptLines(t)
	for _, start := range []string{
		`{"cmd":"query",`, `{"cmd":"resume",`, `{"cmd":"interrupt"}`, `{"cmd":"shutdown"}`,
		`{"ev":"ready"}`, `{"ev":"message",`, `{"ev":"error",`, `{"ev":"done",`,
	} {
		if !slices.ContainsFunc(recorded, func(line string) bool { return strings.HasPrefix(line, start) }) {
			t.Errorf("no transcript has a line that begins %s", start)
		}
	}
}
