package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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

// Boot returns the kernel's id of this start of the system, which is the same in all containers; empty if it has none.
func Boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// SinceBoot returns the time since the system started, with the time that it slept.
func SinceBoot() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // every system has it
	return time.Duration(now.Nano())
}

// host returns the id of the machine and of the namespace in which a container sees processes.
func host() string {
	id, _ := os.ReadFile("/etc/machine-id")
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return string(id) + namespace
}

// LockHolder returns the process that holds the lock of a file, if the system tells it.
func LockHolder(name string) Info {
	var file unix.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Stat(name, &file) != nil {
		return Info{}
	}
	at := fmt.Sprintf("%02x:%02x:%d", unix.Major(file.Dev), unix.Minor(file.Dev), file.Ino)
	for line := range strings.Lines(string(locks)) { // 1: FLOCK  ADVISORY  WRITE 708 00:13:4 0 EOF
		if fields := strings.Fields(line); len(fields) > 5 && fields[1] == "FLOCK" && fields[5] == at {
			pid, _ := strconv.Atoi(fields[4]) // 0 if it is in another container
			return Read(pid)
		}
	}
	return Info{}
}
