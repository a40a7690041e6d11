package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/oacp-go/oacp/bridge"
	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/schema"
	"github.com/oacp-go/oacp/validate"
)

// readMessages reads the message files, and says of those that are none why.
// Pipes may be among them, which wait for whoever writes into them; when the
// command is told to stop, it waits no longer, and the process ends.
func (o convertOptions) readMessages(ctx context.Context, s *command.Streams) ([]*schema.Message, []string, error) {
	type found struct {
		messages []*schema.Message
		invalid  []string
	}
	read := make(chan found, 1)
	go func() {
		var all found
		for m, err := range validate.ReadFiles(o.paths, s.In) {
			if err != nil {
				all.invalid = append(all.invalid, err.Error())
				continue
			}
			all.messages = append(all.messages, m)
		}
		read <- all
	}()
	select {
	case all := <-read:
		return all.messages, all.invalid, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// eachLog opens the logs that the paths stand for, one after the other.
func (o convertOptions) eachLog(ctx context.Context, s *command.Streams, use func(name string, log io.Reader) error) error {
	for _, path := range o.paths {
		if path == "-" {
			in := startReading(ctx, func() (io.ReadCloser, error) { return io.NopCloser(s.In), nil })
			if err := errors.Join(use("<stdin>", in), in.Close()); err != nil {
				return err
			}
			continue
		}
		logs, err := bridge.FindLogs(path)
		if err != nil {
			return err
		}
		for _, name := range logs {
			in := startReading(ctx, func() (io.ReadCloser, error) { return os.Open(name) })
			if err := errors.Join(use(name, in), in.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// startReading opens and reads a file that may be a pipe, for which both may
// take for ever. What is returned ends with the context; an open or a read that
// it does not end is left behind, for the process to end it.
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
