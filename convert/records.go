package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/schema"
)

// Records returns the records that Append writes into an empty log, and what Append says of it. The error is
// one of the folder for temporary files, or of the context.
func Records(ctx context.Context, messages []*schema.Message) (records []bridge.Record, report Report, err error) {
	// What tells records apart is a matter of the log they are in, so there is one.
	folder, err := os.MkdirTemp("", "oacp-records-")
	if err != nil {
		return nil, report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	log, err := bridge.Open(filepath.Join(folder, "bridge.jsonl"), &bridge.Options{NoSync: true})
	if err != nil {
		return nil, report, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if report, err = Append(ctx, log, messages); err != nil {
		return nil, report, err
	}
	for e, err := range log.Records(ctx, "") {
		if err != nil {
			return nil, report, err
		}
		records = append(records, e.Record)
	}
	return records, report, nil
}
