package convert

import (
	"strings"
	"testing"

	"github.com/oacp-go/oacp/schema"
)

func TestRecords(t *testing.T) {
	same := message(schema.Question)
	again := same
	again.ID += "2"
	bad := same
	bad.ID, bad.Subject = bad.ID+"3", ""
	records, invalid := Records([]*schema.Message{&same, &again, &same, &bad})
	if len(records) != 2 || len(invalid) != 1 {
		t.Fatalf("got %d records and errors %v, want 2 records and an error", len(records), invalid)
	}
	if want := "OACP-Id: " + string(again.ID); strings.Contains(records[0].Content, want) || !strings.Contains(records[1].Content, want) {
		t.Errorf("got %q and %q, want the second message's marked", records[0].Content, records[1].Content)
	}
}
