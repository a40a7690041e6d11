package bridge

import "syscall"

// setFileUser makes the calling thread another user, for files only.
var setFileUser = syscall.Setfsuid
