//go:build no_exclusive_rename

package check

func init() { hasExclusiveRename = false }
