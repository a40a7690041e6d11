//go:build !unix

package machine

func openFiles() []Check { return nil }
