//go:build unix

package command

import (
	"fmt"
	"os"
	"syscall"
)

// replaceProcess replaces this process by a program. It only returns if that fails.
func replaceProcess(path string, args []string) error {
	err := syscall.Exec(path, args, os.Environ())
	return fmt.Errorf("starting %s: %w", path, err)
}
