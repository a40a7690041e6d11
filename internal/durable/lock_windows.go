package durable

import "os"

// LockFlags is how to open a lock file: it is made where there is none.
const LockFlags = os.O_CREATE | os.O_RDONLY
