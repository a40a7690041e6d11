//go:build !linux

package gitmail_test

import "testing"

// killChildren kills nothing: nothing tells which processes another one has started.
func (r *race) killChildren(*process) {}

// processesIn returns nothing: nothing tells where other processes work.
func processesIn(string) []string { return nil }

// maxMemory returns 0: nothing tells.
func maxMemory() int { return 0 }

func mountReadOnly(t *testing.T, _ string) func() {
	t.Skip("mounts are made on Linux only")
	return nil
}

func makeImmutable(t *testing.T, path string) func() { return mountReadOnly(t, path) }
