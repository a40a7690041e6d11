//go:build !linux

package agent

// holdThread does nothing: only Linux ties children to the thread that started
// them.
func holdThread() func() { return func() {} }
