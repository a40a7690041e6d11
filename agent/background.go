package agent

import "sync"

// maxBackground bounds the events kept between turns, in bytes.
const maxBackground = 1 << 20

// background is what an agent did between turns, because a command ended or a timer fired. The next
// turn shows it and counts its usage.
type background struct {
	mu     sync.Mutex
	events []Event
	size   int
	usage  Usage
}

// add records an event and its usage. It drops the oldest events if there are too many.
func (b *background) add(event Event, usage Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage = b.usage.plus(usage)
	b.events = append(b.events, event)
	b.size += len(event.Raw)
	for b.size > maxBackground {
		b.size -= len(b.events[0].Raw)
		b.events = b.events[1:]
	}
}

// take returns the events and the usage, and forgets them.
func (b *background) take() ([]Event, Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	events, usage := b.events, b.usage
	b.events, b.size, b.usage = nil, 0, Usage{}
	return events, usage
}

func (u Usage) plus(other Usage) Usage {
	return Usage{
		InputTokens:  u.InputTokens + other.InputTokens,
		OutputTokens: u.OutputTokens + other.OutputTokens,
		CostUSD:      u.CostUSD + other.CostUSD,
	}
}
