package mem

import (
	"encoding/binary"

	"github.com/kinesin-io/kinesin/queue"
)

// Pages are small enough to be freed often, and large enough to cost little for each message.
const (
	pageSlots    = 256
	pagesKeptMax = 4
)

// slab holds the messages, so that the heaps move small entries only and messages leave no garbage.
type slab struct {
	pages []*[pageSlots]slot
	free  []uint32
	used  int
}

// slot is one message, waiting or received.
type slot struct {
	message  queue.Message // its Receipt stays empty
	lane     *lane         // nil in a free slot
	delivery uint64        // number of the delivery while received, else 0
}

func (s *slab) size() int { return len(s.pages) * pageSlots }

func (s *slab) at(i uint32) *slot { return &s.pages[i/pageSlots][i%pageSlots] }

func (s *slab) take() uint32 {
	if len(s.free) == 0 {
		s.pages = append(s.pages, new([pageSlots]slot))
		s.offer(len(s.pages) - 1)
	}
	s.used++
	last := len(s.free) - 1
	i := s.free[last]
	s.free = s.free[:last]
	return i
}

// offer adds the slots of a page to the free list.
func (s *slab) offer(page int) {
	for i := (page+1)*pageSlots - 1; i >= page*pageSlots; i-- {
		s.free = append(s.free, uint32(i))
	}
}

func (s *slab) give(i uint32) {
	*s.at(i) = slot{}
	s.free = append(s.free, i)
	s.used--
}

// shrink frees the memory of a past backlog when no slot is in use.
func (s *slab) shrink() {
	if s.used > 0 || len(s.pages) <= pagesKeptMax {
		return
	}
	s.pages = append([]*[pageSlots]slot(nil), s.pages[:pagesKeptMax]...)
	s.free = nil
	for page := range s.pages {
		s.offer(page)
	}
}

// receiptBytes is the length of a receipt. It names a slot and a delivery, so that the receipt of an earlier
// delivery has no effect.
const receiptBytes = 12

func appendReceipt(b []byte, i uint32, delivery uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, i), delivery)
}

func parseReceipt(receipt string) (slot uint32, delivery uint64, ok bool) {
	if len(receipt) != receiptBytes {
		return 0, 0, false
	}
	b := []byte(receipt) // stays on the stack
	delivery = binary.BigEndian.Uint64(b[4:])
	return binary.BigEndian.Uint32(b), delivery, delivery != 0
}
