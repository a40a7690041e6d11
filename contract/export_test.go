package contract

import (
	"testing"
	"time"
)

// SetAnswerTimeout sets how long the program may take to answer, for one test.
func SetAnswerTimeout(t *testing.T, timeout time.Duration) {
	before := answerTimeout
	answerTimeout = timeout
	t.Cleanup(func() { answerTimeout = before })
}
