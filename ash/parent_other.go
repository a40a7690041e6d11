//go:build !linux

package ash

// holdThread does nothing: only Linux ties children to the thread that started them.
func holdThread() func() { return func() {} }
