package agent

import (
	"context"
	"sync"
)

// questions are what an agent's program asks in a turn and has no answer to
// yet. Each is answered on a goroutine of its own, so that the turn goes on
// meanwhile: it may be interrupted, the program may die or change its mind.
type questions struct {
	ctx context.Context
	// refuse ends the contexts of all questions, those to come too. They are
	// answered all the same.
	refuse context.CancelFunc

	mu        sync.Mutex
	open      map[string]context.CancelFunc
	answering sync.WaitGroup
}

func newQuestions(ctx context.Context) *questions {
	q := &questions{open: make(map[string]context.CancelFunc)}
	q.ctx, q.refuse = context.WithCancel(ctx)
	return q
}

// ask has a question answered, and the answer sent if it is still wanted.
func (q *questions) ask(id string, answer func(context.Context) []byte, send func([]byte)) {
	ctx, cancel := context.WithCancel(q.ctx)
	q.mu.Lock()
	q.open[id] = cancel
	q.mu.Unlock()
	q.answering.Go(func() {
		if line := answer(ctx); q.withdraw(id) {
			send(line)
		}
	})
}

// withdraw ends the context of a question that needs no answer any more. It
// reports false if there is no such question.
func (q *questions) withdraw(id string) bool {
	q.mu.Lock()
	cancel, ok := q.open[id]
	delete(q.open, id)
	q.mu.Unlock()
	if ok {
		cancel()
	}
	return ok
}

// end withdraws all questions and waits for whoever is answering them.
func (q *questions) end() {
	q.mu.Lock()
	clear(q.open)
	q.mu.Unlock()
	q.refuse()
	q.answering.Wait()
}
