//go:build !unix

package agent

import "os"

// signalOf returns "": no signal ends a process here.
func signalOf(*os.ProcessState) string { return "" }
