package exclusive

import (
	"fmt"
	"time"

	"github.com/gofrs/flock"
)

// brief is how long to wait for a lock that processes hold only for moments.
const brief = time.Second

const unknownHolder = "another process"

// TakeBriefly takes such a lock. If another process holds it throughout, for example because it is stopped,
// the error names that process.
func TakeBriefly(lock *flock.Flock) error {
	for end := time.Now().Add(brief); ; time.Sleep(retry) {
		switch locked, err := lock.TryLock(); {
		case locked:
			return nil
		case err != nil:
			return fmt.Errorf("locking %s: %w", lock.Path(), err)
		case time.Now().After(end):
			return fmt.Errorf("locking %s: %s holds it", lock.Path(), holderOf(lock.Path()))
		}
	}
}
