package git

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// RemoteFormat returns the object format that a remote announces, or an empty string: servers without version 2 of git's
// protocol announce none before the first push. No command prints it, so RemoteFormat reads it from a trace of packets.
func (r *Repository) RemoteFormat(ctx context.Context, remote string) (format string, err error) {
	traced, trace := *r, bounded{limit: stderrLimit, last: true}
	traced.Env = append(slices.Clone(r.Env), "GIT_TRACE_PACKET=2") // standard error
	_, err = traced.run(ctx, nil, &trace, "-c", "protocol.version=2", "ls-remote", "--", remote, "HEAD")
	if failed, ok := errors.AsType[*Error](err); ok {
		failed.Stderr = strings.Join(slices.DeleteFunc(strings.SplitAfter(failed.Stderr, "\n"), func(line string) bool {
			return strings.Contains(line, " packet: ")
		}), "")
	}
	_, format, _ = strings.Cut(trace.kept.String(), "< object-format=")
	format, _, _ = strings.Cut(format, "\n")
	return format, err
}
