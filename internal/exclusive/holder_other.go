//go:build !linux

package exclusive

func holderOf(string) string { return unknownHolder }
