package ash

import "time"

// SetWriteTimeout changes how long a host may read nothing. Call it before Serve.
func (s *Server) SetWriteTimeout(d time.Duration) { s.writeTimeout = d }
