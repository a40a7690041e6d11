package process

import (
	"os"
	"path/filepath"
	"strconv"
)

// Read describes a process.
func Read(pid int) Info {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return Info{}
	}
	info := parseStat(pid, stat)
	if info.PID > 0 {
		arguments, _ := os.ReadFile(filepath.Join(folder, "cmdline")) // it may have ended
		info.Arguments = string(arguments)
	}
	return info
}
