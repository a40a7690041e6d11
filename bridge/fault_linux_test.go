package bridge

import "syscall"

// setFileUser makes the calling thread another user for files, and for nothing else.
var setFileUser = syscall.Setfsuid
