//go:build !linux

package durable

import "os"

// StartWriteback does nothing: only Linux can start writing without waiting.
func StartWriteback(*os.File) {}
