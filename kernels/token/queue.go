package token

// queue is a binary heap that gives the item that is before all others.
type queue[T any] struct {
	items  []T
	before func(a, b T) bool
}

func (q *queue[T]) push(x T) {
	q.items = append(q.items, x)
	s := q.items
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.before(s[i], s[parent]) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

// pop takes the first item; ok is false when there is none.
func (q *queue[T]) pop() (first T, ok bool) {
	s := q.items
	if len(s) == 0 {
		return first, false
	}
	first, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && q.before(s[child+1], s[child]) {
			child++
		}
		if !q.before(s[child], s[i]) {
			break
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
	q.items = s
	return first, true
}
