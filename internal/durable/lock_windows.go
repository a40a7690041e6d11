package durable

import "os"

const lockFlags = os.O_CREATE | os.O_RDONLY
