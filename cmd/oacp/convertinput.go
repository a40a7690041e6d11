package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// readMessages reads the message files and says what is wrong with those that are not valid. Reading a pipe may take
// forever: when the context ends, readMessages returns and leaves the read to the end of the process.
func (o convertOptions) readMessages(ctx context.Context, s *command.Streams) ([]*schema.Message, []string, error) {
	var messages []*schema.Message
	var invalid []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range validate.ReadFiles(o.paths, s.In) {
			if err != nil {
				invalid = append(invalid, err.Error())
				continue
			}
			messages = append(messages, m)
		}
	}()
	select {
	case <-read:
		return messages, invalid, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// eachLog calls use with the records of each log that the paths name. A failure.ErrReported does not keep it from
// the next log.
func (o convertOptions) eachLog(ctx context.Context, s *command.Streams, use func(name string, records iter.Seq2[bridge.Entry, error]) error) error {
	var reported error
	visit := func(name string, open func() (io.ReadCloser, error)) error {
		in := startReading(ctx, open)
		err := errors.Join(use(name, bridge.ReadRecords(in, name)), in.Close())
		if errors.Is(err, failure.ErrReported) {
			reported, err = err, nil
		}
		return err
	}
	for _, path := range o.paths {
		if path == "-" {
			if err := visit("<stdin>", func() (io.ReadCloser, error) { return io.NopCloser(s.In), nil }); err != nil {
				return err
			}
			continue
		}
		logs, err := bridge.FindLogs(path)
		if err != nil {
			return err
		}
		for _, name := range logs {
			if err := visit(name, func() (io.ReadCloser, error) { return os.Open(name) }); err != nil {
				return err
			}
		}
	}
	return reported
}

// startReading opens and reads a file. If it is a pipe, both may take forever: when the context ends, the returned reader
// fails, and an open or read that goes on is left to the end of the process.
func startReading(ctx context.Context, open func() (io.ReadCloser, error)) io.ReadCloser {
	read, write := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = write.CloseWithError(context.Cause(ctx)) }) // it never fails
	go func() {
		defer stop()
		file, err := open()
		if err == nil {
			_, err = io.Copy(write, file)
			err = errors.Join(err, file.Close())
		}
		_ = write.CloseWithError(err) // it never fails
	}()
	return read
}
