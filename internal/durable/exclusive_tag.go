//go:build no_exclusive_rename

package durable

// With this tag, all packages and programs behave as on a file system without an exclusive rename.
func init() { hasExclusiveRename = false }
