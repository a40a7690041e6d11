//go:build !linux && !darwin

package process

import "time"

// Read knows nothing about processes here: a session lives until it ends in an orderly way.
func Read(pid int) Info { return Info{Process: Process{PID: pid}} }

// Boot knows no id here.
func Boot() string { return "" }

// SinceBoot means nothing without a Boot.
func SinceBoot() time.Duration { return 0 }

func host() string { return "" }

// LockHolder knows nothing about locks here.
func LockHolder(string) Info { return Info{} }
