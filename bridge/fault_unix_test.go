//go:build unix

package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

var platformChildren = map[string]func([]string) error{"limit": childLimit, "read-only": childReadOnly}

// childLimit sends while the system itself refuses to let the log grow beyond a size.
func childLimit(args []string) error {
	ctx := context.Background()
	signal.Ignore(syscall.SIGXFSZ)
	l, err := Open(args[0], nil)
	if err != nil {
		return err
	}
	if _, err := l.Send(ctx, task("a", "b", "1")); err != nil {
		return err
	}
	info, err := os.Stat(args[0])
	if err != nil {
		return err
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	limit := before
	limit.Cur = uint64(info.Size() + 50)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if _, err := l.Send(ctx, task("a", "b", "2")); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("want EFBIG, got %w", err)
	}
	if now, err := os.Stat(args[0]); err != nil || now.Size() != info.Size() {
		return fmt.Errorf("want %d bytes, got %d, %w", info.Size(), now.Size(), err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	_, err = l.Send(ctx, task("a", "b", "2"))
	return errors.Join(err, l.Close())
}

func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	path := logPath(t)
	must(t, child(t, "limit", path).Run())
	wantContents(t, openLog(t, path, nil).Drain(context.Background(), "b", ""), "1", "2")
}

// childReadOnly works on a folder it may not write to.
func childReadOnly(args []string) error {
	if os.Geteuid() == 0 {
		runtime.LockOSThread() // the file system user is the thread's
		if err := setFileUser(65534); err != nil {
			return err
		}
	}
	ctx := context.Background()
	warn := func(err error) { fmt.Fprintln(os.Stderr, "warning:", err) }
	l, err := Open(args[0], &Options{Warn: warn})
	if err != nil {
		return err
	}
	n := 0
	for _, err := range l.Drain(ctx, "b", "") {
		if err != nil {
			return err
		}
		n++
	}
	if fmt.Sprint(n) != args[1] {
		return fmt.Errorf("want %s records, got %d", args[1], n)
	}
	if _, err := get(l, GenerateID(TypeTask, "a", "b", "00001")); err != nil {
		return err
	}
	if status, err := l.Status(ctx); err != nil || status.TotalMessages == 0 {
		return fmt.Errorf("status %+v: %w", status, err)
	}
	_, err = l.Send(ctx, task("a", "b", "new"))
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), args[0]) {
		return fmt.Errorf("want a permission error that names the log, got %w", err)
	}
	return l.Close()
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 && setFileUser == nil {
		t.Skip("no way to give up the rights of root for files only")
	}
	for _, test := range []struct {
		name  string
		spoil func(path string) error
	}{
		{"folder", func(path string) error { return os.Chmod(filepath.Dir(path), 0o555) }},
		{"log", func(path string) error {
			return errors.Join(os.Chmod(filepath.Dir(path), 0o777), os.Remove(path+".lock"), os.Chmod(path, 0o444))
		}},
		{"folder without index", func(path string) error {
			return errors.Join(os.RemoveAll(path+".index"), os.Chmod(filepath.Dir(path), 0o555))
		}},
		{"index", func(path string) error {
			return errors.Join(os.Remove(path+".lock"), os.Chmod(filepath.Dir(path), 0o777), os.Chmod(path, 0o444), os.Chmod(path+".index", 0))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, sent := numberedLog(t, 300)
			for _, shown := range append(partFiles(t, path), path) {
				must(t, os.Chmod(shown, 0o644))
			}
			must(t, os.Chmod(path+".index", 0o755))
			must(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755))
			must(t, test.spoil(path))
			defer func() { must(t, os.Chmod(filepath.Dir(path), 0o755)) }()
			must(t, child(t, "read-only", path, fmt.Sprint(len(sent)-(len(sent)+2)/3)).Run())
		})
	}
}
