//go:build !linux

package memoryfolder

// Use does nothing: only Linux has a folder in memory.
func Use() error { return nil }
