//go:build !linux

package processgroup

func hold() func() { return func() {} }
