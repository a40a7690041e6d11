//go:build unix && !linux

package durable

import "os"

// startWriteback does nothing: only Linux can start writing without waiting.
func startWriteback(*os.File) {}
