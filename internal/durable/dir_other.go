//go:build unix && !linux

package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

func sameDevice(a, b *os.File) bool {
	var statA, statB unix.Stat_t
	if unix.Fstat(int(a.Fd()), &statA) != nil || unix.Fstat(int(b.Fd()), &statB) != nil {
		return false
	}
	return statA.Dev == statB.Dev
}

// startWriteback does nothing: only Linux can start writing without waiting.
func startWriteback(*os.File) {}
