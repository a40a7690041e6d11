//go:build !linux

package bridge

// setFileUser does not exist here.
var setFileUser func(uid int) error
