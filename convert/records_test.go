package convert

import (
	"slices"
	"strings"
	"testing"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

func TestRecords(t *testing.T) {
	p := newPlace(t, "claude", "codex", "gemini")
	same := message(schema.Question)
	again := same
	again.ID += "2"
	bad := same
	bad.ID, bad.Subject = bad.ID+"3", ""
	messages := []*schema.Message{&same, &again, &same, &bad}
	records, report, err := Records(t.Context(), messages)
	if err != nil || report.Recorded != 2 || report.AlreadyRecorded != 1 || len(report.Warnings) != 1 {
		t.Fatalf("want 2 records, 1 of them again, and a warning, got %+v, %v", report, err)
	}
	if _, err := Append(t.Context(), p.log, messages); err != nil {
		t.Fatal(err)
	}
	if got, want := ids(records), ids(p.records()); !slices.Equal(got, want) {
		t.Errorf("want the records that Append writes:\n%q, got\n%q", want, got)
	}
	if !strings.Contains(records[1].Content, "OACP-Id: "+string(again.ID)) {
		t.Errorf("want the second message told apart from the first, got %q", records[1].Content)
	}
}

func ids(records []bridge.Record) (all []string) {
	for _, r := range records {
		all = append(all, r.ID)
	}
	return all
}
