package git

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
)

// RemoteFormat returns the object format that a remote announces, or an empty string: servers without version 2 of git's
// protocol announce none before the first push. No command prints it, so RemoteFormat reads it from a trace of packets.
func (r *Repository) RemoteFormat(ctx context.Context, remote string) (format string, err error) {
	trace, err := os.CreateTemp("", "oacp-packets-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, trace.Close(), os.Remove(trace.Name())) }()
	with := *r
	with.Env = append(slices.Clone(r.Env), "GIT_TRACE_PACKET="+trace.Name())
	if _, err := with.Run(ctx, "-c", "protocol.version=2", "ls-remote", "--", remote, "HEAD"); err != nil {
		return "", err
	}
	data, err := os.ReadFile(trace.Name())
	_, format, _ = strings.Cut(string(data), "< object-format=")
	format, _, _ = strings.Cut(format, "\n")
	return format, err
}
