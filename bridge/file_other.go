//go:build !unix

package bridge

import "os"

// openNonblock is not needed on systems without named pipes in folders.
const openNonblock = 0

// inode returns 0: without file numbers, the fingerprints alone tell logs apart.
func inode(os.FileInfo) uint64 { return 0 }

// syncFolder does nothing: folders cannot be synced here, and names do not need it.
func syncFolder(string) error { return nil }
