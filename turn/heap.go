package turn

import "container/heap"

// order says which of two members goes first, and where a member keeps its
// place in a heap, from 1; 0 is not in it.
type order[Member any] interface {
	before(a, b Member) bool
	place(m Member) *int
}

// heapOf holds members so that the first one in the order is at hand. What a
// member is ordered by may change only with fix after it. The zero value is
// empty.
type heapOf[Member any, Order order[Member]] struct {
	members []Member
}

func (h *heapOf[Member, Order]) first() Member { return h.members[0] }

func (h *heapOf[Member, Order]) push(m Member) { heap.Push(h, m) }

func (h *heapOf[Member, Order]) has(m Member) bool { return *h.placeOf(m) > 0 }

// remove takes a member out, if it is in.
func (h *heapOf[Member, Order]) remove(m Member) {
	if place := *h.placeOf(m); place > 0 {
		heap.Remove(h, place-1)
	}
}

func (h *heapOf[Member, Order]) fix(m Member) { heap.Fix(h, *h.placeOf(m)-1) }

func (h *heapOf[Member, Order]) placeOf(m Member) *int {
	var o Order
	return o.place(m)
}

// Len, Less, Swap, Push and Pop are what container/heap works with.

func (h *heapOf[Member, Order]) Len() int { return len(h.members) }

func (h *heapOf[Member, Order]) Less(i, j int) bool {
	var o Order
	return o.before(h.members[i], h.members[j])
}

func (h *heapOf[Member, Order]) Swap(i, j int) {
	h.members[i], h.members[j] = h.members[j], h.members[i]
	*h.placeOf(h.members[i]), *h.placeOf(h.members[j]) = i+1, j+1
}

func (h *heapOf[Member, Order]) Push(m any) {
	h.members = append(h.members, m.(Member))
	*h.placeOf(m.(Member)) = len(h.members)
}

func (h *heapOf[Member, Order]) Pop() any {
	var none Member
	last := len(h.members) - 1
	m := h.members[last]
	h.members[last] = none
	h.members = h.members[:last]
	*h.placeOf(m) = 0
	return m
}
