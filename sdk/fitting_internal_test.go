package sdk

import "testing"

// Follow-ups count with their task when a call is filled.
func TestFollowUpsCountInACall(t *testing.T) {
	t.Parallel()
	large := Item{Payload: make([]byte, bytesPerCallMax/4)}
	items := []Item{{}, {}, {}}
	for i := range items {
		items[i].Then = []Item{{Else: []Item{large}}, {Finally: []Item{large}}}
	}
	if n := fitting(items); n != 1 {
		t.Errorf("%d items of half the bytes of a call and more go into one", n)
	}
	if n := fitting([]Item{{}, {}, {}}); n != 3 {
		t.Errorf("%d small items go into a call, want 3", n)
	}
}
