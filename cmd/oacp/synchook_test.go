package main

import (
	"bytes"
	"testing"
)

// TestHookBlocks checks that a hook with a block is as before once the block is removed, and that a
// second block replaces the first.
func TestHookBlocks(t *testing.T) {
	for _, hook := range []string{
		"", "#!/bin/sh\nexit 0\n", "#!/bin/sh -e\n\nset -u\nmake test", "#!/usr/bin/env bash\necho\n", "make test\n", "#!/bin/sh\r\necho\r\n",
		"#!/bin/sh\n# <<< oacp sync <<<\necho\n",
	} {
		var before []byte
		if hook != "" {
			before = []byte(hook)
		}
		with, err := withBlock(before, hookBlock("--dir", "/a b"))
		if err != nil {
			t.Errorf("%q: %v", hook, err)
			continue
		}
		again, err := withBlock(with, hookBlock())
		if err != nil || bytes.Count(again, []byte(blockBegin)) != 1 || bytes.Contains(again, []byte("/a b")) {
			t.Errorf("%q: a second block gives %q, %v", hook, again, err)
		}
		if after, err := withoutBlock(again); err != nil || !bytes.Equal(after, before) || (after == nil) != (before == nil) {
			t.Errorf("%q: without its block it is %q, %v", hook, after, err)
		}
	}
	for _, hook := range []string{"#!/usr/bin/python3\nprint()\n", "#!/bin/sh", blockBegin + "lost\n"} {
		if with, err := withBlock([]byte(hook), hookBlock()); err == nil {
			t.Errorf("%q: got %q, want an error", hook, with)
		}
	}
}
