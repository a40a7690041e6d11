package ash

import "time"

// SetWriteTimeout sets how long a write may wait for a host to read. Call it before Serve.
func (s *Server) SetWriteTimeout(d time.Duration) { s.writeTimeout = d }
