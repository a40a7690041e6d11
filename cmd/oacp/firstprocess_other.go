//go:build !linux

package main

// runAsFirst reports false: only Linux has containers with a first process.
func runAsFirst() (status int, first bool, err error) { return 0, false, nil }
