package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

func TestGoldenMapping(t *testing.T) {
	var out strings.Builder
	for _, row := range Mapping() {
		if row.Channel != "" {
			continue
		}
		m := message(row.Message)
		if !row.Message.SingleRecipient() {
			m.To = append(m.To, "gemini")
		}
		records, err := ToBridge(&m, 1)
		if err != nil {
			t.Fatalf("%s: %v", row.Message, err)
		}
		fmt.Fprintf(&out, "# message %s\n", row.Message)
		for _, r := range records {
			line, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s\n", line)
			back, err := fromBridge(r, nil)
			if err != nil {
				t.Fatalf("%s: going back: %v", row.Message, err)
			}
			if !reflect.DeepEqual(back, &m) {
				t.Errorf("%s: going back gave\n%+v\nwant\n%+v", row.Message, back, &m)
			}
		}
	}
	golden(t, "messages.golden", out.String())
}

// odd are records that AgentPair's bridge reference does not foresee.
func odd() []bridge.Record {
	with := func(change func(*bridge.Record)) bridge.Record {
		r := record(bridge.TypeTask, "", "claude", "codex", "odd")
		change(&r)
		return r
	}
	return []bridge.Record{
		with(func(r *bridge.Record) { r.ID = "0123456789abcdef0000" }),
		with(func(r *bridge.Record) { r.ID = "sha256-abc123" }),
		with(func(r *bridge.Record) { r.ID = "ABCDEF0123456789ABCDEF" }),
		with(func(r *bridge.Record) { r.ID = "7" }),
		with(func(r *bridge.Record) { r.Type = "progress" }),
		with(func(r *bridge.Record) { r.Type, r.Signal = "signal", "" }),
		with(func(r *bridge.Record) { r.Type, r.Signal = "signal", "MAYBE" }),
		with(func(r *bridge.Record) { r.Signal = "PASS" }),
		with(func(r *bridge.Record) { r.Type, r.To = "", "" }),
		with(func(r *bridge.Record) { r.Timestamp = "yesterday" }),
		with(func(r *bridge.Record) { r.Timestamp = "2024-03-28T10:00:00.123456789+02:00" }),
		with(func(r *bridge.Record) { r.Content = "" }),
		with(func(r *bridge.Record) { r.Content = " \n\t\n" }),
		with(func(r *bridge.Record) { r.Content = "a\x00b\x1b[0m\u2028c" }),
		with(func(r *bridge.Record) { r.Content = "\n\n  second line\nthird" }),
		with(func(r *bridge.Record) { r.Content = strings.Repeat("ä", 201) + "\nrest" }),
		with(func(r *bridge.Record) { r.Type, r.Signal, r.Content = "signal", "DONE", "" }),
		with(func(r *bridge.Record) { r.Metadata = []byte(`{"oacp":"nonsense"}`) }),
		with(func(r *bridge.Record) { r.Metadata = []byte(`{"tool":"other"}`) }),
	}
}

func TestGoldenRecords(t *testing.T) {
	var records []bridge.Record
	for _, row := range Mapping() {
		if row.Channel != "" && row.documented() {
			records = append(records, record(row.Record, row.Signal, "claude", "codex", "All met.\nLooks good."),
				record(row.Record, row.Signal, "claude", "", "All met.\nLooks good."))
		}
	}
	var out strings.Builder
	for _, r := range append(records, odd()...) {
		line, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if r, err = bridge.ParseRecord(line); err != nil {
			t.Fatal(err)
		}
		m, err := fromBridge(r, []schema.AgentName{"claude", "codex", "gemini"})
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		file, err := schema.Encode(m)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		fmt.Fprintf(&out, "# record %s\n%s", line, file)
		if _, err := Carried(r); err != nil {
			fmt.Fprintf(&out, "# warning: %v\n", err)
		}
		checkOrigin(t, r, m)
	}
	golden(t, "records.golden", out.String())
}

// checkOrigin checks that a derived message names its record and says what it says.
func checkOrigin(t *testing.T, r bridge.Record, m *schema.Message) {
	t.Helper()
	origin, derived := OriginOf(m)
	if !derived || !origin.Names(r) || origin != (Origin{r.ID, r.RunID}) {
		t.Errorf("message %s is derived from %+v (%t), want record %s of run %d", m.ID, origin, derived, r.ID, r.RunID)
	}
	if got := derivedContent(m.Body); got != r.Content {
		t.Errorf("got content %q, want %q", got, r.Content)
	}
}

func TestDerivedMessageGoesBack(t *testing.T) {
	for _, row := range Mapping() {
		if row.Channel == "" || !row.documented() {
			continue
		}
		for _, to := range []string{"codex", ""} {
			want := record(row.Record, row.Signal, "claude", to, "Looks good\n")
			m, err := fromBridge(want, []schema.AgentName{"claude", "codex", "gemini"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := ToBridge(m, 1)
			if err != nil || len(got) != 1 {
				t.Fatalf("%s: %d records, error %v", row.Channel, len(got), err)
			}
			if !Carries(got[0], m) {
				t.Errorf("%s: the record does not carry the message", row.Channel)
			}
			got[0].Metadata = nil
			if !reflect.DeepEqual(got[0], want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", row.Channel, got[0], want)
			}
		}
	}
}

// TestDerivedIDs checks the form of the ids, and that they sort by time.
func TestDerivedIDs(t *testing.T) {
	r := record("task", "", "claude", "codex", "one")
	derive := func(change func(*bridge.Record), part int) schema.ID {
		t.Helper()
		r := r
		change(&r)
		m, err := Derive(r, []schema.AgentName{"codex"}, part)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := schema.ParseID(m.ID)
		if err != nil || len(parts.Rand) != timeLength+hashLength || parts.Sender != "claude" {
			t.Errorf("got id %s, %v", m.ID, err)
		}
		return m.ID
	}
	same := func(*bridge.Record) {}
	first := derive(same, 0)
	if want := schema.ID("msg-20240328T1000Z-claude-000"); !strings.HasPrefix(string(first), string(want)) {
		t.Errorf("got id %s, want %s and 13 digits", first, want)
	}
	ids := []schema.ID{first}
	for _, clock := range []string{"10:00:00.0013", "10:00:00.25", "10:00:01", "10:00:59.999999999", "10:01:00"} {
		ids = append(ids, derive(func(r *bridge.Record) { r.Timestamp = "2024-03-28T" + clock + "Z" }, 0))
	}
	if !slices.IsSorted(ids) {
		t.Errorf("ids do not sort by time: %q", ids)
	}
	ids = append(ids, derive(same, 1),
		derive(func(r *bridge.Record) { r.RunID = 2 }, 0), derive(func(r *bridge.Record) { r.ID = "x" }, 0),
		derive(func(r *bridge.Record) { r.To = "" }, 0))
	slices.Sort(ids)
	if all := len(ids); len(slices.Compact(ids)) != all {
		t.Errorf("ids are not distinct: %q", ids)
	}
	if again := derive(same, 0); again != first {
		t.Errorf("got id %s, then %s", first, again)
	}
}

func TestOddRecordsGoThroughAnotherLog(t *testing.T) {
	for _, r := range odd() {
		m, err := fromBridge(r, []schema.AgentName{"codex"})
		if err != nil {
			t.Fatal(err)
		}
		records, err := ToBridge(m, 1)
		if err != nil || len(records) != 1 {
			t.Fatalf("%d records, error %v", len(records), err)
		}
		back, err := fromBridge(records[0], []schema.AgentName{"codex"})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, m) {
			t.Errorf("got  %+v\nwant %+v", back, m)
		}
	}
}

func TestUndeliverable(t *testing.T) {
	agents := []schema.AgentName{"claude", "codex"}
	for _, test := range []struct {
		record bridge.Record
		agents []schema.AgentName
		field  string
	}{
		{record("task", "", "", "codex", "x"), agents, "from"},
		{record("task", "", "../../etc", "codex", "x"), agents, "from"},
		{record("task", "", "claude", "the others", "x"), agents, "to"},
		{record("task", "", "claude", "claude", "x"), agents, "to"},
		{record("task", "", "claude", "", "x"), agents[:1], "to"},
		{record("task", "", "claude", "codex", strings.Repeat("x", schema.MaxFileSize+1)), agents, "content"},
	} {
		_, err := fromBridge(test.record, test.agents)
		if err == nil || !strings.HasPrefix(err.Error(), test.field+": ") {
			t.Errorf("%.80v: got error %v, want one of field %s", test.record, err, test.field)
		}
	}
}

func TestMetadataMustFit(t *testing.T) {
	m := message(schema.TaskRequest)
	records, err := ToBridge(&m, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*bridge.Record){
		"type":     func(r *bridge.Record) { r.Type = bridge.TypeChat },
		"signal":   func(r *bridge.Record) { r.Signal = bridge.SignalDone },
		"from":     func(r *bridge.Record) { r.From = "gemini" },
		"to":       func(r *bridge.Record) { r.To = "gemini" },
		"content":  func(r *bridge.Record) { r.Content = "something else" },
		"metadata": func(r *bridge.Record) { r.Metadata = []byte(`{"oacp":{"id":"x"}}`) },
	} {
		r := records[0]
		change(&r)
		got, err := fromBridge(r, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.ID == m.ID || !strings.HasPrefix(got.Channel, "bridge-") {
			t.Errorf("%s: the metadata of another record was believed: %+v", name, got)
		}
		if _, err := Carried(r); !errors.Is(err, errMetadata) {
			t.Errorf("%s: got %v, want %v", name, err, errMetadata)
		}
	}
	if _, found := Carried(records[0]); found != nil {
		t.Errorf("got warnings %v of a record that is fine", found)
	}
}

func FuzzMessageThroughTheBridge(f *testing.F) {
	for i, kind := range schema.Types() {
		m := message(kind)
		file, err := schema.Encode(&m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file, i)
	}
	for _, r := range odd() {
		m, err := fromBridge(r, []schema.AgentName{"codex"})
		if err != nil {
			f.Fatal(err)
		}
		file, err := schema.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file, 2)
	}
	f.Fuzz(func(t *testing.T, file []byte, runID int) {
		m, err := validate.Read(file)
		if err != nil {
			return
		}
		want, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		records, err := ToBridge(m, runID)
		if err != nil {
			t.Fatalf("a valid message was refused: %v", err)
		}
		for _, r := range records {
			line, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if r, err = bridge.ParseRecord(line); err != nil {
				t.Fatal(err)
			}
			back, err := fromBridge(r, m.To)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := json.Marshal(back); err != nil || string(got) != string(want) {
				t.Errorf("got  %s\nwant %s (%v)", got, want, err)
			}
		}
	})
}

func FuzzRecordThroughAMailbox(f *testing.F) {
	for _, r := range odd() {
		line, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	m := message(schema.TaskRequest)
	records, err := ToBridge(&m, 1)
	if err != nil {
		f.Fatal(err)
	}
	line, err := records[0].Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := bridge.ParseRecord(line)
		if err != nil {
			return
		}
		m, err := fromBridge(r, []schema.AgentName{"claude", "codex", "gemini"})
		if err != nil {
			return
		}
		file, err := schema.Encode(m)
		if err != nil {
			return // larger than a message file may be
		}
		read, err := validate.Read(file)
		if err != nil {
			t.Fatalf("the message of %q is not valid: %v\n%s", line, err, file)
		}
		if carried, _ := Carried(r); carried != nil {
			return // other tests check carried messages
		}
		checkOrigin(t, r, read)
	})
}

func BenchmarkToBridge(b *testing.B) {
	m := message(schema.TaskRequest)
	for b.Loop() {
		if _, err := ToBridge(&m, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFromBridge(b *testing.B) {
	m := message(schema.TaskRequest)
	carried, err := ToBridge(&m, 1)
	if err != nil {
		b.Fatal(err)
	}
	for name, r := range map[string]bridge.Record{"carried": carried[0], "derived": record("task", "", "claude", "codex", m.Body.Text)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := fromBridge(r, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
