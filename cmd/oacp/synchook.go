package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oacp-go/oacp/internal/command"
	"github.com/oacp-go/oacp/internal/durable"
	"github.com/oacp-go/oacp/internal/failure"
	"github.com/oacp-go/oacp/internal/git"
	"github.com/oacp-go/oacp/internal/visible"
	"github.com/oacp-go/oacp/mailbox"
)

// The hooks of the user's repository that start a sync: one runs after git pull, one in git push.
var syncHooks = []string{"post-merge", "pre-push"}

// A block is the part of a hook that this command writes. It starts the sync in the background without
// the streams of the hook, so git neither waits for it nor fails with it.
const (
	blockBegin = "# >>> oacp sync: written by oacp sync --install-hook >>>\n"
	blockEnd   = "# <<< oacp sync <<<\n"
	newHook    = "#!/bin/sh\n"
	// largestHook is the most bytes of a hook that is changed.
	largestHook = 1 << 20
)

// shells are the programs that can run a hook with a block.
var shells = []string{"sh", "bash", "dash", "zsh", "ksh"}

func hookBlock(words ...string) string {
	return blockBegin + "if command -v oacp >/dev/null 2>&1; then (" +
		visible.Shell(append([]string{"oacp", "sync"}, words...)...) + " </dev/null >/dev/null 2>&1 &); fi\n" + blockEnd
}

// withBlock returns the hook with the block behind its first line, in the place of an older one.
func withBlock(hook []byte, block string) ([]byte, error) {
	hook, err := withoutBlock(hook)
	if err != nil {
		return nil, err
	}
	if hook == nil {
		hook = []byte(newHook)
	}
	at := 0
	if bytes.HasPrefix(hook, []byte("#!")) {
		at = bytes.IndexByte(hook, '\n') + 1
		line := strings.TrimSpace(string(hook[:at]))
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("#! /", r) })
		if at == 0 || !slices.ContainsFunc(words, func(word string) bool { return slices.Contains(shells, word) }) {
			return nil, errors.New("it is not a shell script")
		}
	}
	return slices.Concat(hook[:at], []byte(block), hook[at:]), nil
}

// withoutBlock returns the hook as it was before withBlock: nil if there was none.
func withoutBlock(hook []byte) ([]byte, error) {
	before, rest, found := bytes.Cut(hook, []byte(blockBegin))
	_, after, ended := bytes.Cut(rest, []byte(blockEnd))
	switch rest := slices.Concat(before, after); {
	case !found:
		return hook, nil
	case !ended:
		return nil, errors.New("the end of the lines of oacp sync is missing")
	case string(rest) == newHook:
		return nil, nil
	default:
		return rest, nil
	}
}

// changeHooks adds the blocks to the hooks of the user's repository, or removes them.
func (o *syncOptions) changeHooks(ctx context.Context, w *mailbox.Workspace, s *command.Streams) error {
	top, folder, err := userHooks(ctx, w, s)
	if err != nil {
		return err
	}
	var words []string
	found, err := workspaceAround(top)
	if err != nil || !sameFolder(found, w.Dir()) {
		words = []string{"--dir", w.Dir()}
	}
	changed := []string{}
	for _, name := range syncHooks {
		path := filepath.Join(folder, name)
		if wrote, err := changeHook(path, o.removeHook, hookBlock(words...)); err != nil {
			return fmt.Errorf("the hook %s: %w", path, err)
		} else if wrote {
			changed = append(changed, path)
		}
	}
	return s.Answer(o.json, map[string]any{"repository": top, "changed": changed}, func() {
		start := "start"
		if o.removeHook {
			start = "do not start"
		}
		fmt.Fprintf(s.Out, "OK: git pull and git push %s oacp sync in %s\n", start, visible.Line(top))
		for _, path := range changed {
			fmt.Fprintf(s.Out, "  changed: %s\n", visible.Line(path))
		}
		if len(changed) == 0 {
			fmt.Fprintln(s.Out, "  nothing to change")
		}
	})
}

func sameFolder(a, b string) bool {
	first, err := os.Stat(a)
	second, secondErr := os.Stat(b)
	return err == nil && secondErr == nil && os.SameFile(first, second)
}

// userHooks returns the repository around the working folder, but not that of the workspace, and the
// folder of its hooks. Hooks that other repositories share are an error.
func userHooks(ctx context.Context, w *mailbox.Workspace, s *command.Streams) (top, hooks string, err error) {
	if err := git.Check(ctx); err != nil {
		return "", "", err
	}
	start := s.Dir
	if below, err := filepath.Rel(w.Dir(), start); err == nil && filepath.IsLocal(below) {
		start = filepath.Dir(w.Dir())
	}
	ask := func(dir string, words ...string) (string, error) {
		out, err := (&git.Repository{Dir: dir}).Run(ctx, append([]string{"rev-parse"}, words...)...)
		return strings.TrimSuffix(string(out), "\n"), err
	}
	if top, err = ask(start, "--show-toplevel"); err != nil {
		return "", "", failure.WithHint(fmt.Errorf("%s is in no git repository of yours: %w", start, err),
			"go into the repository whose git pull and git push are to start oacp sync")
	}
	common, err := ask(top, "--git-common-dir")
	if err == nil {
		hooks, err = ask(top, "--git-path", "hooks")
	}
	if err != nil {
		return "", "", err
	}
	hooks = below(top, hooks)
	for _, own := range []string{top, below(top, common)} {
		if path, err := filepath.Rel(own, hooks); err == nil && filepath.IsLocal(path) {
			return top, hooks, nil
		}
	}
	return "", "", failure.WithHint(fmt.Errorf("core.hooksPath is %s, outside of the repository", hooks),
		"other repositories may use these hooks, too: start oacp sync in them yourself")
}

// below returns the path, or if it is relative, the path below the folder.
func below(folder, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(folder, path)
}

// changeHook writes or removes the block of a hook. It reports whether the file changed.
func changeHook(path string, remove bool, block string) (changed bool, err error) {
	hook, mode, err := readHook(path)
	if err != nil {
		return false, err
	}
	var wanted []byte
	if remove {
		wanted, err = withoutBlock(hook)
	} else {
		wanted, err = withBlock(hook, block)
	}
	switch {
	case err != nil:
		return false, failure.WithHint(err, "write into it what is to start oacp sync yourself, or move it away")
	case bytes.Equal(wanted, hook):
		return false, nil
	case wanted == nil:
		return true, os.Remove(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	return true, durable.Replace(path, wanted, cmp.Or(mode, 0o755))
}

// readHook returns a hook that git runs, or nil if there is none.
func readHook(path string) (hook []byte, mode fs.FileMode, err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular() || info.Size() > largestHook:
		return nil, 0, failure.WithHint(errors.New("it is not a plain file"), "start oacp sync from what is there yourself")
	case info.Mode()&0o111 == 0:
		return nil, 0, failure.WithHint(errors.New("it is not executable, so git does not run it"), "chmod +x it, or move it away")
	}
	hook, err = os.ReadFile(path)
	return hook, info.Mode().Perm(), err
}
