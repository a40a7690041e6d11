//go:build !unix

package command

import (
	"errors"
	"os"
	"os/exec"
)

// replaceProcess runs a program in place of this process: with its streams, and exits with its status. It
// only returns if the program cannot be started. The console sends its signals to both.
func replaceProcess(path string, args []string) error {
	program := exec.Command(path, args[1:]...)
	program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := program.Run()
	if exit := (*exec.ExitError)(nil); err == nil || errors.As(err, &exit) {
		os.Exit(program.ProcessState.ExitCode())
	}
	return err
}
